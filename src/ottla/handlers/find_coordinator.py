"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

It is the leader of the partition of an internal topic that the id hashes to. The topic is made when
somebody asks for the first time; the answer waits for it, so that clients need not ask again.

v1 adds the key type (0 group, 1 transaction) and messages; v3 is flexible; v4 asks for several keys
at once (KIP-699); v6 knows share groups, which are not served here. v2 is as v1; v5 only adds an
error that others return.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.coordinator.partitioner import partition_of
from ottla.protocol.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.endpoints import address_of
from ottla.requests.needs import Each, Whole, itself
from ottla.requests.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_TOPICS: Final = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}

SEVERAL_KEYS_FROM: Final = 4
SHARE_FROM: Final = 6
_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "There is no coordinator for keys of this type.",
}
"""What is said beside the code; of success only versions 1 to 3 say something."""


class _Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


async def handle(
    request: FindCoordinatorRequest, context: RequestContext, services: Services
) -> FindCoordinatorResponse:
    ready = await _ensure_topic(request.key_type, services)
    if context.version < SEVERAL_KEYS_FROM:
        found = _find(request.key_type, request.key, ready, context, services)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=_MESSAGES[found.error],
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    response = FindCoordinatorResponse()
    for key in request.coordinator_keys:
        found = _find(request.key_type, key, ready, context, services)
        response.coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message="" if found.error is ErrorCode.NONE else _MESSAGES[found.error],
            )
        )
    return response


def refuse(
    request: FindCoordinatorRequest, error: ApiError, _version: int
) -> FindCoordinatorResponse:
    if not request.coordinator_keys:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message
            )
            for key in request.coordinator_keys
        ]
    )


async def _ensure_topic(key_type: int, services: Services) -> ErrorCode:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return ErrorCode.INVALID_REQUEST
    if topic in services.metadata.image.topics.by_name:
        return ErrorCode.NONE
    if await services.auto_topics.ensure_internal(topic) != ErrorCode.NONE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def _find(
    key_type: int, key: str, ready: ErrorCode, context: RequestContext, services: Services
) -> _Found:
    if ready is not ErrorCode.NONE:
        return _Found(ready)
    image = services.metadata.image
    topic = image.topics.by_name.get(_TOPICS[key_type])
    if topic is not None:
        partition = topic.partitions.get(partition_of(key, len(topic.partitions)))
        broker = None if partition is None else image.brokers.get(partition.leader)
        if broker is not None and not broker.fenced:
            address = address_of(broker, context, services)
            if address is not None:
                return _Found(ErrorCode.NONE, address.node_id, address.host, address.port)
    return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _key(request: FindCoordinatorRequest, kind: int) -> Collection[str]:
    """The only key of versions that have one, if it is of this kind."""
    return (request.key,) if request.key_type == kind else ()


def _keys(request: FindCoordinatorRequest, kind: int) -> list[str]:
    return request.coordinator_keys if request.key_type == kind else []


HANDLER: Final = Handler(
    FindCoordinatorRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request: _key(request, GROUP),
            until=SEVERAL_KEYS_FROM - 1,
        ),
        Whole(
            AclOperation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request: _key(request, TRANSACTION),
            until=SEVERAL_KEYS_FROM - 1,
        ),
        Each(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request: _keys(request, GROUP),
            itself,
            lambda response: response.coordinators,
            since=SEVERAL_KEYS_FROM,
        ),
        Each(
            AclOperation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request: _keys(request, TRANSACTION),
            itself,
            lambda response: response.coordinators,
            since=SEVERAL_KEYS_FROM,
        ),
        Each(
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            lambda request: _keys(request, SHARE),
            lambda _key, _image: CLUSTER_NAME,
            lambda response: response.coordinators,
            since=SHARE_FROM,
        ),
    ],
)
