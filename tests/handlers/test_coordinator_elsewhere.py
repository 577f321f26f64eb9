"""A broker answers for the groups and transactions that it coordinates, and for no others."""

from types import ModuleType

import pytest
from tests.handlers.transactions import ID, Producer, TransactionBroker
from tests.replication.states import lead

from ottla.common.errors import ErrorCode
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC
from ottla.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    describe_transactions,
    heartbeat,
    leave_group,
    list_groups,
    list_transactions,
    offset_commit,
    sync_group,
    txn_offset_commit,
)
from ottla.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.generated.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.generated.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.protocol.message import Message

ELSEWHERE = 2


class Broker(TransactionBroker):
    """It led everything, and leads only what is not of coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.commit(7)
        self.producer()
        for topic, coordinator in (
            (GROUP_METADATA_TOPIC, self.groups),
            (TRANSACTION_STATE_TOPIC, self.transactions),
        ):
            for index, partition in (self.replicas.topic(topic) or {}).items():
                lead(partition, ELSEWHERE, 1, (1, ELSEWHERE), replicas=(1, ELSEWHERE))
                coordinator.resigned(index, 1)


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def _whole(answer: Message) -> int:
    return int(getattr(answer, "error_code"))  # noqa: B009 - each answer has its own type


REQUESTS: list[tuple[ModuleType, Message, int, type[Message]]] = [
    (heartbeat, HeartbeatRequest(group_id="g", member_id="m"), 4, HeartbeatResponse),
    (sync_group, SyncGroupRequest(group_id="g", member_id="m"), 4, SyncGroupResponse),
    (
        leave_group,
        LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]),
        5,
        LeaveGroupResponse,
    ),
    (
        consumer_group_heartbeat,
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
        ConsumerGroupHeartbeatResponse,
    ),
]


@pytest.mark.parametrize(
    ("handler", "request_", "version", "response"),
    REQUESTS,
    ids=[each[0].__name__.rpartition(".")[2] for each in REQUESTS],
)
def test_members_are_told_to_look_elsewhere(
    broker: Broker, handler: ModuleType, request_: Message, version: int, response: type[Message]
) -> None:
    answer = broker.ask(handler, request_, version, response)
    assert _whole(answer) == ErrorCode.NOT_COORDINATOR


def test_groups_of_others_are_not_described_listed_or_deleted(broker: Broker) -> None:
    described = broker.ask(
        describe_groups, DescribeGroupsRequest(groups=["g"]), 6, DescribeGroupsResponse
    )
    assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    consumers = broker.ask(
        consumer_group_describe,
        ConsumerGroupDescribeRequest(group_ids=["g"]),
        1,
        ConsumerGroupDescribeResponse,
    )
    assert consumers.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    deleted = broker.ask(
        delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse
    )
    assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
    listed = broker.ask(list_groups, ListGroupsRequest(), 5, ListGroupsResponse)
    assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])


def test_offsets_of_others_are_not_committed(broker: Broker) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    answer = broker.ask(offset_commit, request, 9, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    within = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=4001,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)],
            )
        ],
    )
    refused = broker.ask(txn_offset_commit, within, 5, TxnOffsetCommitResponse)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_transactions_of_others_are_not_begun_ended_described_or_listed(broker: Broker) -> None:
    assert broker.begin() is ErrorCode.NOT_COORDINATOR
    producer = Producer(4001, 0)
    assert broker.add(producer, 0) == {0: ErrorCode.NOT_COORDINATOR}
    assert broker.end(producer) is ErrorCode.NOT_COORDINATOR
    described = broker.ask(
        describe_transactions,
        DescribeTransactionsRequest(transactional_ids=[ID]),
        0,
        DescribeTransactionsResponse,
    )
    assert described.transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
    listed = broker.ask(list_transactions, ListTransactionsRequest(), 2, ListTransactionsResponse)
    assert (listed.error_code, listed.transaction_states) == (ErrorCode.NONE, [])
