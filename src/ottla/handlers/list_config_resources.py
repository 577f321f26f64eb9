"""ListConfigResources (key 74): what there is that has settings (KIP-1142).

v0 lists subscriptions to clients' metrics and nothing else: it was ListClientMetricsResources. v1
takes the kinds that are wanted; none at all is every kind.
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import UnsupportedVersion
from ottla.config.changes import Resource
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole

LISTED: Final = (
    Resource.GROUP,
    Resource.CLIENT_METRICS,
    Resource.BROKER_LOGGER,
    Resource.BROKER,
    Resource.TOPIC,
)


def handle(
    request: ListConfigResourcesRequest, context: RequestContext, services: Services
) -> ListConfigResourcesResponse:
    wanted = set(request.resource_types) or set(LISTED)
    if context.version == 0:
        wanted = {Resource.CLIENT_METRICS}
    if not wanted.issubset(LISTED):
        raise UnsupportedVersion
    image = services.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in wanted
            for name in _names(kind, image)
        ]
    )


def _names(kind: Resource, image: MetadataImage) -> Iterable[str]:
    match kind:
        case Resource.TOPIC:
            return sorted(image.topics.by_name)
        case Resource.BROKER | Resource.BROKER_LOGGER:
            return [str(node_id) for node_id in sorted(image.brokers)]
        case _:
            return sorted(name for resource, name in image.configs if resource == kind)


HANDLER: Final = Handler(
    ListConfigResourcesRequest,
    handle,
    refuse=by_code(ListConfigResourcesResponse),
    needs=[Whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)],
)
