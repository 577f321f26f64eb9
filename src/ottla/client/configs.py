"""Settings of topics, brokers and groups: shown, changed one by one, listed."""

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.cluster import ANY, Cluster
from ottla.client.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)
from ottla.client.errors import SomeRefused, refusal
from ottla.common.errors import ApiError
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.generated.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_OWN_NODE = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def _node_of(resource: ConfigResource) -> int:
    """A broker's own settings are known to it alone; the others to all."""
    if resource.resource_type in _OWN_NODE and resource.name:
        return int(resource.name)
    return ANY


def _by_node(resources: Iterable[ConfigResource]) -> dict[int, list[ConfigResource]]:
    nodes: dict[int, list[ConfigResource]] = {}
    for resource in resources:
        nodes.setdefault(_node_of(resource), []).append(resource)
    return nodes


def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    *,
    keys: Sequence[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> dict[ConfigResource, list[ConfigEntry]]:
    """All settings of each resource, or those that ``keys`` names."""
    done: dict[ConfigResource, list[ConfigEntry]] = {}
    refused: dict[ConfigResource, ApiError] = {}
    for node_id, group in _by_node(resources).items():
        if node_id != ANY:
            cluster.node(node_id)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.resource_type,
                    resource_name=resource.name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for resource in group
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        response = cluster.ask_again(request, DescribeConfigsResponse, node_id=node_id)
        for result in response.results:
            resource = ConfigResource(result.resource_type, result.resource_name)
            if result.error_code:
                refused[resource] = refusal(result.error_code, result.error_message)
            else:
                done[resource] = [_entry(item) for item in result.configs]
    if refused:
        raise SomeRefused(refused, done)
    return done


def _entry(item: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        item.name,
        item.value,
        item.config_source,
        item.read_only,
        item.is_sensitive,
        item.config_type,
        item.documentation,
        [ConfigSynonym(one.name, one.value, one.source) for one in item.synonyms],
    )


def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> None:
    """Change the settings that are named and leave the others."""
    refused: dict[ConfigResource, ApiError] = {}
    done: dict[ConfigResource, None] = {}
    for node_id, group in _by_node(changes).items():
        if node_id != ANY:
            cluster.node(node_id)
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.resource_type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=change.value,
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in group
            ],
            validate_only=validate_only,
        )
        response = cluster.ask_again(request, IncrementalAlterConfigsResponse, node_id=node_id)
        for result in response.responses:
            resource = ConfigResource(result.resource_type, result.resource_name)
            if result.error_code:
                refused[resource] = refusal(result.error_code, result.error_message)
            else:
                done[resource] = None
    if refused:
        raise SomeRefused(refused, done)


def list_config_resources(
    cluster: Cluster, resource_types: Iterable[int] = ()
) -> list[ConfigResource]:
    """The resources with settings of their own, of the given types or of all."""
    response = cluster.ask_again(
        ListConfigResourcesRequest(resource_types=[int(kind) for kind in resource_types]),
        ListConfigResourcesResponse,
        failed=lambda answer: refusal(answer.error_code) if answer.error_code else None,
    )
    return [
        ConfigResource(item.resource_type, item.resource_name) for item in response.config_resources
    ]
