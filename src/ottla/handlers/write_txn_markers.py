"""WriteTxnMarkers (key 27): the end of transactions, written on the partitions led here.

Coordinators send it, and people who end a transaction that has no coordinator any more
(``ottla transactions abort``, KIP-664).

v1 is the first that is served, flexible; v2 tells the version of the transaction, upon which the
epoch of a marker is held to be a new one (KIP-1228).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes
from ottla.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, Quota
from ottla.requests.needs import Whole


async def handle(
    request: WriteTxnMarkersRequest, _context: RequestContext, services: Services
) -> WriteTxnMarkersResponse:
    under_way = [
        (asked.producer_id, services.markers.send(_marker(asked), _partitions(asked)))
        for asked in request.markers
    ]
    return WriteTxnMarkersResponse(
        markers=[_result(producer_id, await codes) for producer_id, codes in under_way]
    )


def _marker(asked: WritableTxnMarker) -> EndTransactionMarker:
    return EndTransactionMarker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        coordinator_epoch=asked.coordinator_epoch,
        committed=asked.transaction_result,
        transaction_version=asked.transaction_version,
    )


def refuse(
    request: WriteTxnMarkersRequest, error: ApiError, _version: int
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            _result(asked.producer_id, dict.fromkeys(_partitions(asked), error.code))
            for asked in request.markers
        ]
    )


def _partitions(asked: WritableTxnMarker) -> tuple[TopicPartition, ...]:
    named = [TopicPartition(t.name, index) for t in asked.topics for index in t.partition_indexes]
    return tuple(dict.fromkeys(named))


def _result(producer_id: int, codes: Codes) -> WritableTxnMarkerResult:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (topic, index), code in codes.items():
        result = topics.setdefault(topic, WritableTxnMarkerTopicResult(name=topic))
        result.partitions.append(
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values()))


HANDLER: Final = Handler(
    WriteTxnMarkersRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(
            AclOperation.ALTER,
            ResourceType.CLUSTER,
            otherwise=((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        )
    ],
    quota=Quota.EXEMPT,
)
