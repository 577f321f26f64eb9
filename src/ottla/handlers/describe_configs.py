"""DescribeConfigs (key 32): the settings of topics, brokers, groups and the like, and their origin.

A broker speaks of its own settings and of those that hold for all brokers, never of another's. The
name of the broker is then its number, or empty for what holds for all. Passwords are never shown.

v1 is the first that is served, and has synonyms and sources; v2 as v1; v3 types and documentation
(KIP-569); v4 flexible.
"""

from collections.abc import Collection
from typing import Final

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.config.changes import Resource
from ottla.config.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from ottla.config.layers import Source
from ottla.controller.topic_names import check_topic_name
from ottla.handlers.context import NodeServices, RequestContext
from ottla.handlers.loggers import log_levels
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

KEY: Final = ApiKey.DESCRIBE_CONFIGS
VERSIONS: Final = (1, 4)
_DESCRIBED: Final = frozenset(
    {
        Resource.TOPIC,
        Resource.BROKER,
        Resource.BROKER_LOGGER,
        Resource.CLIENT_METRICS,
        Resource.GROUP,
    }
)


async def handle(
    request: DescribeConfigsRequest, _context: RequestContext, services: NodeServices
) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in _DESCRIBED:
            raise InvalidRequest(
                f"Unexpected resource type {resource.resource_type} "
                f"for resource {resource.resource_name}"
            )
    return DescribeConfigsResponse(
        results=[_described(resource, request, services) for resource in request.resources]
    )


def _described(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, services: NodeServices
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    names = resource.configuration_keys or None
    try:
        if resource.resource_type == Resource.BROKER_LOGGER:
            result.configs = _loggers(resource.resource_name, names, services)
        else:
            result.configs = [
                _shown(entry, request) for entry in _entries(resource, names, services)
            ]
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message
    return result


def _entries(
    resource: DescribeConfigsResource, names: Collection[str] | None, services: NodeServices
) -> list[Entry]:
    name = resource.resource_name
    kind = Resource(resource.resource_type)
    config, layers = services.config, services.layers()
    overrides = services.metadata.image.configs_of(kind, name)
    match kind:
        case Resource.TOPIC:
            check_topic_name(name)
            if name not in services.metadata.image.topics.by_name:
                raise UnknownTopicOrPartition
            return describe_topic(layers, config, overrides, names)
        case Resource.BROKER if not name:
            return describe_cluster_defaults(layers, config, names)
        case Resource.BROKER:
            if _node_id(name) != services.node_id:
                raise InvalidRequest(
                    f"Unexpected broker id, expected {services.node_id} or empty string, "
                    f"but received {name}"
                )
            return describe_broker(layers, config, names)
        case Resource.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty")
            return describe_client_metrics(overrides, names)
        case _:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return describe_group(layers, config, overrides, names)


def _loggers(
    name: str, names: Collection[str] | None, services: NodeServices
) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    if _node_id(name) != services.node_id:
        raise InvalidRequest(
            f"Unexpected broker id, expected {services.node_id} but received {name}"
        )
    return [
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER_CONFIG
        )
        for logger, level in log_levels().items()
        if names is None or logger in names
    ]


def _node_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None


def _shown(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )


def refuse(
    request: DescribeConfigsRequest, code: ErrorCode, message: str
) -> DescribeConfigsResponse:
    """Each resource that was named gets the error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
