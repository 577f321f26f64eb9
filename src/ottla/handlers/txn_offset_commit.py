"""TxnOffsetCommit (key 28): offsets of a group, committed together with a transaction (KIP-98).

v1 as v0; v2 the leader epoch of the offset; v3 flexible, and who commits: generation, member and
instance are checked as in OffsetCommit (KIP-447); v4 TRANSACTION_ABORTABLE; v5 is version 2 of
transactions: the partition of the group is added to the transaction by the way (KIP-890).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, Whole, group_id, its_name, transactional_id
from ottla.requests.partitions import exists


async def handle(
    request: TxnOffsetCommitRequest, context: RequestContext, services: Services
) -> TxnOffsetCommitResponse:
    response = TxnOffsetCommitResponse()
    answers: dict[str, TxnOffsetCommitResponseTopic] = {}
    known = []
    for topic in request.topics:
        present: list[TxnOffsetCommitRequestPartition] = []
        missing: list[TxnOffsetCommitRequestPartition] = []
        for each in topic.partitions:
            is_there = exists(services, topic.name, each.partition_index)
            (present if is_there else missing).append(each)
        if missing:
            refused = TxnOffsetCommitRequestTopic(name=topic.name, partitions=missing)
            _add(response, answers, _refused(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = present
        if present:
            known.append(topic)
    request.topics = known
    if not known:
        return response
    try:
        committed = await services.groups.commit_transactional_offsets(request, context.version)
    except ApiError as error:
        committed = refuse(request, error, context.version)
    for answered in committed.topics:
        _add(response, answers, answered)
    return response


def _add(
    response: TxnOffsetCommitResponse,
    answers: dict[str, TxnOffsetCommitResponseTopic],
    answered: TxnOffsetCommitResponseTopic,
) -> None:
    """One answer for each topic, in the order in which they were first spoken of."""
    before = answers.setdefault(answered.name, answered)
    if before is answered:
        response.topics.append(answered)
    else:
        before.partitions += answered.partitions


def refuse(
    request: TxnOffsetCommitRequest, error: ApiError, _version: int
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_refused(topic, error.code) for topic in request.topics])


def _refused(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ],
    )


HANDLER: Final = Handler(
    TxnOffsetCommitRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id),
        Whole(AclOperation.READ, ResourceType.GROUP, group_id),
        Each(
            AclOperation.READ,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
        ),
    ],
)
