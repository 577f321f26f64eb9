"""Metadata (key 3): which brokers there are, and who leads which partition.

Topics are asked for by name, or all of them: no list at all in v1 and above, an empty one in v0.
From v12 on also by topic id, and then by nothing else: names beside ids are not looked at. A topic
that is not there is made if the client and the broker both allow it; the answer does not wait for
it, the client asks again.

v1 racks, the controller and internal topics; v2 the cluster id; v3 and v6 throttle time; v4
auto-creation may be declined; v5 offline replicas; v6 LISTENER_NOT_FOUND; v7 leader epochs; v8
authorized operations; v9 flexible; v10 topic ids in the answer; v11 no more operations on the
cluster (DescribeCluster has them); v12 topic ids in the request (KIP-516); v13 an error code.
"""

from typing import Final

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest
from ottla.common.identifiers import ZERO_UUID
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.requests.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.endpoints import addresses, some_alive_broker
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.topics import INTERNAL_TOPICS, distinct, reason_unknown, show_partition

_LISTENER_ERRORS: Final = 6
_TOPIC_IDS: Final = 12
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    request: MetadataRequest, context: RequestContext, services: Services
) -> MetadataResponse:
    image = services.metadata.image
    topics = _asked_topics(request, context)
    if topics is None:
        found = [
            _shown(topic, image, context)
            for name, topic in sorted(image.topics.by_name.items())
            if _may_describe(name, context, services)
        ]
    elif any(topic.topic_id != ZERO_UUID for topic in topics):
        found = _by_id(topics, image, context, services)
    else:
        found = _by_name(topics, request, context, services)
    if request.include_topic_authorized_operations:
        for shown in found:
            if shown.name is not None:
                shown.topic_authorized_operations = ON_TOPIC
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
            for a in addresses(image, context, services)
        ],
        cluster_id=services.cluster_id,
        controller_id=some_alive_broker(image, services),
        topics=found,
        cluster_authorized_operations=(
            ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _asked_topics(
    request: MetadataRequest, context: RequestContext
) -> list[MetadataRequestTopic] | None:
    """The topics that are asked for; None for all of them."""
    topics = request.topics
    if topics is None or (context.version == 0 and not topics):
        return None
    for topic in topics:
        if context.version < _TOPIC_IDS:
            if topic.name is None:
                raise InvalidRequest(f"Topic name can not be null for version {context.version}")
            if topic.topic_id != ZERO_UUID:
                raise InvalidRequest(
                    f"Topic IDs are not supported in requests for version {context.version}"
                )
    return topics


def _may_describe(name: str, context: RequestContext, services: Services) -> bool:
    return services.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(name: str, context: RequestContext, services: Services) -> bool:
    create, allows = AclOperation.CREATE, services.authorizer.allows
    return allows(context, create, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, create, ResourceType.TOPIC, name
    )


def _by_id(
    topics: list[MetadataRequestTopic],
    image: MetadataImage,
    context: RequestContext,
    services: Services,
) -> list[MetadataResponseTopic]:
    by_id = image.topics.by_id
    asked = dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID)
    unknown = [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        for topic_id in asked
        if topic_id not in by_id
    ]
    known = [by_id[each] for each in asked if each in by_id]
    return unknown + [
        _shown(topic, image, context)
        if _may_describe(topic.name, context, services)
        else MetadataResponseTopic(error_code=_DENIED, name=None, topic_id=topic.topic_id)
        for topic in known
    ]


def _by_name(
    topics: list[MetadataRequestTopic],
    request: MetadataRequest,
    context: RequestContext,
    services: Services,
) -> list[MetadataResponseTopic]:
    names: list[str] = []
    denied: list[str] = []
    for name in distinct(_name(topic) for topic in topics):
        (names if _may_describe(name, context, services) else denied).append(name)
    image = services.metadata.image
    missing = [name for name in names if name not in image.topics.by_name]
    errors: dict[str, int] = {name: reason_unknown(name) for name in missing}
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        valid = [name for name in missing if errors[name] != ErrorCode.INVALID_TOPIC_EXCEPTION]
        wanted = [name for name in valid if _may_create(name, context, services)]
        errors.update(dict.fromkeys(set(valid).difference(wanted), _DENIED))
        if wanted:
            services.auto_topics.create(wanted)
            image = services.metadata.image
    by_name = image.topics.by_name
    found = [_shown(by_name[name], image, context) for name in names if name in by_name]
    errors.update(dict.fromkeys(denied, _DENIED))
    return found + [
        MetadataResponseTopic(
            error_code=errors[name], name=name, is_internal=name in INTERNAL_TOPICS
        )
        for name in [*(each for each in missing if each not in by_name), *denied]
    ]


def _name(topic: MetadataRequestTopic) -> str:
    if topic.name is None:
        raise ApiError("neither a topic's name nor its id was given")
    return topic.name


def _shown(
    topic: TopicImage, image: MetadataImage, context: RequestContext
) -> MetadataResponseTopic:
    partitions = []
    for index, partition in sorted(topic.partitions.items()):
        shown = show_partition(
            image,
            partition,
            context,
            errors_of_version_0=context.version == 0,
            listener_errors=context.version >= _LISTENER_ERRORS,
        )
        partitions.append(
            MetadataResponsePartition(
                error_code=shown.error,
                partition_index=index,
                leader_id=shown.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=shown.replicas,
                isr_nodes=shown.isr,
                offline_replicas=shown.offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )


def refuse(request: MetadataRequest, error: ApiError, _version: int) -> MetadataResponse:
    """Each topic that was asked for gets the error; v13 has it once more for all."""
    return MetadataResponse(
        controller_id=-1,
        error_code=error.code,
        topics=[
            MetadataResponseTopic(
                error_code=error.code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ],
    )


HANDLER: Final = Handler(
    MetadataRequest,
    handle,
    refuse=refuse,
    needs=[
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.EACH),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN),
        ByHandler(
            AclOperation.CREATE,
            ResourceType.TOPIC,
            Effect.EACH,
            otherwise=((AclOperation.CREATE, ResourceType.CLUSTER),),
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.CLUSTER, Effect.HIDDEN, since=8, until=10),
    ],
)
