"""AddPartitionsToTxn (key 24): partitions become part of a transaction, or it is asked if they are.

All partitions of a transaction are added, or none: when one does not exist, the others have
OPERATION_NOT_ATTEMPTED.

v1 as v0; v2 PRODUCER_FENCED, which older clients know as INVALID_PRODUCER_EPOCH; v3 flexible; v4 is
for brokers: several transactions, which may be verified only (KIP-890); v5 TRANSACTION_ABORTABLE.
"""

from collections.abc import Iterable
from itertools import compress
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.service import error_of
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Effect, Whole
from ottla.requests.partitions import exists
from ottla.requests.topics import INTERNAL_TOPICS
from ottla.requests.turns import of_names

FENCED_SINCE: Final = 2
SEVERAL_SINCE: Final = 4


async def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, services: Services
) -> AddPartitionsToTxnResponse:
    if context.version < SEVERAL_SINCE:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await _denied(only, context, services)
        if codes is None:
            codes = await _add(only, context.version, services)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes))
    # All at once: one that waits for its commit holds up nothing but the answer.
    under_way = [
        (transaction, run(services.scheduler.turn, _add(transaction, context.version, services)))
        for transaction in request.transactions
    ]
    response = AddPartitionsToTxnResponse()
    for transaction, added in under_way:
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_results(await added)
            )
        )
    return response


async def _denied(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext, services: Services
) -> Codes | None:
    """What each partition hears when the client may not write to all topics; None when it may.

    Nobody adds internal topics by their names: those of a group's offsets come in another way.
    """
    write, may = AclOperation.WRITE, services.authorizer.allows

    def is_denied(name: str) -> bool:
        return name in INTERNAL_TOPICS or not may(context, write, ResourceType.TOPIC, name)

    names = [topic.name for topic in transaction.topics]
    denied = set(compress(names, await of_names(context, services, is_denied, names)))
    if not denied:
        return None
    codes: dict[TopicPartition, ErrorCode] = {}
    for each in _partitions(transaction.topics):
        if each.topic in denied:
            codes[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not exists(services, each.topic, each.partition):
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            codes[each] = ErrorCode.OPERATION_NOT_ATTEMPTED
    return codes


async def _add(
    transaction: AddPartitionsToTxnTransaction, version: int, services: Services
) -> Codes:
    partitions = _partitions(transaction.topics)
    unknown = [each for each in partitions if not exists(services, each.topic, each.partition)]
    if unknown:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return codes
    asked = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=frozenset(partitions),
        client_version=2 if version >= SEVERAL_SINCE else 0,
    )
    try:
        if transaction.verify_only:
            return await services.transactions.verify_partitions(asked)
        return await services.transactions.add_partitions(asked)
    except ApiError as error:
        return dict.fromkeys(partitions, error_of(error.code, FENCED_SINCE, version))


def refuse(
    request: AddPartitionsToTxnRequest, error: ApiError, _version: int
) -> AddPartitionsToTxnResponse:
    partitions = _partitions(request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_topic_v3_and_below=_results(dict.fromkeys(partitions, error.code)),
    )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    results: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        result = results.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        result.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(results.values())


HANDLER: Final = Handler(
    AddPartitionsToTxnRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(
            AclOperation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request: (request.v3_and_below_transactional_id,),
            until=SEVERAL_SINCE - 1,
        ),
        ByHandler(AclOperation.WRITE, ResourceType.TOPIC, Effect.EACH, until=SEVERAL_SINCE - 1),
        Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, since=SEVERAL_SINCE),
    ],
)
