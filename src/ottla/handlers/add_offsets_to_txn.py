"""AddOffsetsToTxn (key 25): a transaction is going to commit offsets of a group.

What is added is the partition of ``__consumer_offsets`` that the group belongs to.

v1 as v0; v2 PRODUCER_FENCED, which older clients know as INVALID_PRODUCER_EPOCH; v3 flexible; v4
TRANSACTION_ABORTABLE. Clients of version 2 of transactions do not send it (KIP-890).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.transaction.service import error_of
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, group_id, transactional_id

FENCED_SINCE: Final = 2


async def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext, services: Services
) -> AddOffsetsToTxnResponse:
    partition = services.groups.partition_for(request.group_id)
    try:
        await services.transactions.add_partitions(
            AddPartitions(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=frozenset({TopicPartition(GROUP_METADATA_TOPIC, partition)}),
            )
        )
    except ApiError as error:
        code = error_of(error.code, FENCED_SINCE, context.version)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()


HANDLER: Final = Handler(
    AddOffsetsToTxnRequest,
    handle,
    refuse=by_code(AddOffsetsToTxnResponse),
    needs=[
        Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id),
        Whole(AclOperation.READ, ResourceType.GROUP, group_id),
    ],
)
