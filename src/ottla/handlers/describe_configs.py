"""DescribeConfigs (key 32): the settings of topics, brokers, groups and the like, and their origin.

A broker speaks of its own settings and of those that hold for all brokers, never of another's. The
name of the broker is then its number, or empty for what holds for all. Passwords are never shown.

A request may name all topics of a cluster. They are described and encoded in turns, all as they
were when the request came; one that is named twice is described once.

v1 is the first that is served, and has synonyms and sources; v2 as v1; v3 types and documentation
(KIP-569); v4 flexible.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ottla.common import authorization as acl
from ottla.common.errors import (
    ApiError,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.config.changes import Resource, node_id_of
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
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.primitives import Writer, compact_count, count
from ottla.requests.config_needs import each_logger, each_of_its_kind
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.loggers import log_levels
from ottla.requests.turns import in_turns

AT_ONCE: Final = 20
"""Resources that are described in one turn: a few milliseconds."""
_THROTTLE_TIME_BYTES: Final = 4
_NO_TAGS: Final = b"\x00"
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
    request: DescribeConfigsRequest, context: RequestContext, services: NodeServices
) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in _DESCRIBED:
            raise InvalidRequest(
                f"Unexpected resource type {resource.resource_type} "
                f"for resource {resource.resource_name}"
            )
    # The keys of a resource are looked up for each setting that it has.
    asked = {
        (resource.resource_type, resource.resource_name, _keys(resource)): None
        for resource in request.resources
    }
    describing = _Describing(request, context.version, services)
    if len(asked) <= AT_ONCE:
        return DescribeConfigsResponse(results=[describing.result(*each) for each in asked])
    encoded = await in_turns(
        services.scheduler, lambda each: describing.encoded(*each), asked, at_once=AT_ONCE
    )
    return _Encoded(encoded)


def _keys(resource: DescribeConfigsResource) -> frozenset[str] | None:
    return frozenset(resource.configuration_keys) if resource.configuration_keys else None


class _Encoded(DescribeConfigsResponse):
    """An answer with results that are bytes of its version already, before all others."""

    def __init__(self, encoded: list[bytes]) -> None:
        super().__init__()
        self._encoded = encoded

    def encode(self, out: Writer, version: int) -> None:
        others = Writer()
        DescribeConfigsResult.encode_array(self.results, others, version)
        whole = Writer()
        super().encode(whole, version)
        flexible = version >= self.FLEXIBLE_FROM
        out.parts.append(whole.getvalue()[:_THROTTLE_TIME_BYTES])
        everything = [*self._encoded, *self.results]
        out.parts.append(compact_count(everything) if flexible else count(everything))
        out.parts += self._encoded
        out.parts.append(others.getvalue())
        if flexible:
            out.parts.append(_NO_TAGS)


class _Describing:
    """What one request asks for, by the settings as they are now."""

    def __init__(
        self, request: DescribeConfigsRequest, version: int, services: NodeServices
    ) -> None:
        self._request = request
        self._version = version
        self._node_id = services.node_id
        self._config = services.config
        self._layers = services.layers()
        self._image = services.metadata.image
        self._shown: dict[object, list[DescribeConfigsResourceResult]] = {}
        """Most topics have the same settings as another one."""

    def encoded(self, kind: int, name: str, names: frozenset[str] | None) -> bytes:
        out = Writer()
        DescribeConfigsResult.encode_array([self.result(kind, name, names)], out, self._version)
        return out.getvalue()

    def result(self, kind: int, name: str, names: frozenset[str] | None) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        try:
            if kind == Resource.BROKER_LOGGER:
                result.configs = _loggers(name, names, self._node_id)
            else:
                result.configs = self._configs(Resource(kind), name, names)
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message
        return result

    def _configs(
        self, kind: Resource, name: str, names: frozenset[str] | None
    ) -> list[DescribeConfigsResourceResult]:
        self._check(kind, name)
        overrides = self._image.configs_of(kind, name)
        # Of a broker the overrides are among its settings.
        of_broker = kind == Resource.BROKER
        known = (kind, name if of_broker else frozenset(overrides.items()), names)
        configs = self._shown.get(known)
        if configs is None:
            entries = self._entries(kind, name, overrides, names)
            configs = self._shown[known] = [_shown(entry, self._request) for entry in entries]
        return configs

    def _check(self, kind: Resource, name: str) -> None:
        match kind:
            case Resource.TOPIC:
                check_topic_name(name)
                if name not in self._image.topics.by_name:
                    raise UnknownTopicOrPartition
            case Resource.BROKER:
                if name and node_id_of(name, "Broker") != self._node_id:
                    raise InvalidRequest(
                        f"Unexpected broker id, expected {self._node_id} or empty string, "
                        f"but received {name}"
                    )
            case Resource.CLIENT_METRICS:
                if not name:
                    raise InvalidRequest("Client metrics subscription name must not be empty")
            case _:
                if not name:
                    raise InvalidRequest("Group name must not be empty")

    def _entries(
        self,
        kind: Resource,
        name: str,
        overrides: Mapping[str, str],
        names: frozenset[str] | None,
    ) -> list[Entry]:
        layers, config = self._layers, self._config
        match kind:
            case Resource.TOPIC:
                return describe_topic(layers, config, overrides, names)
            case Resource.BROKER if not name:
                return describe_cluster_defaults(layers, config, names)
            case Resource.BROKER:
                return describe_broker(layers, config, names)
            case Resource.CLIENT_METRICS:
                return describe_client_metrics(overrides, names)
            case _:
                return describe_group(layers, config, overrides, names)


def _loggers(
    name: str, names: Collection[str] | None, node_id: int
) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    if node_id_of(name, "Broker") != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id} but received {name}")
    return [
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER_CONFIG
        )
        for logger, level in log_levels().items()
        if names is None or logger in names
    ]


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
    request: DescribeConfigsRequest, error: ApiError, _version: int
) -> DescribeConfigsResponse:
    """Each resource that was named gets the error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _resources(request: DescribeConfigsRequest) -> list[DescribeConfigsResource]:
    return request.resources


def _results(response: DescribeConfigsResponse) -> list[DescribeConfigsResult]:
    return response.results


HANDLER: Final = Handler(
    DescribeConfigsRequest,
    handle,
    refuse=refuse,
    needs=[
        *each_of_its_kind(acl.AclOperation.DESCRIBE_CONFIGS, _resources, _results),
        each_logger(acl.AclOperation.DESCRIBE_CONFIGS, _resources, _results),
    ],
)
