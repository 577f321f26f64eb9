"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords on a log with a past."""

import pytest
from tests.handlers.broker import Broker
from tests.replication.states import lead

from ottla.common.errors import ClusterAuthorizationFailed, ErrorCode
from ottla.handlers import delete_records, list_offsets, offset_for_leader_epoch
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

BASE = 1_700_000_000_000
NOTHING = (0, -1, -1, -1)


@pytest.fixture
def broker() -> Broker:
    """Topic t: partition 0 with five records, partition 1 empty, partition 2 led elsewhere."""
    made = Broker()
    made.add_topic("t", 2, leader_epoch=3)
    made.produce("t", 0, tuple(BASE + ms for ms in (10, 30, 20, 30, 5)))
    made.add_topic("far", replicas=(7,), leader=7)
    made.add_topic("followed", replicas=(1, 7), leader=7)
    return made


def listed(
    broker: Broker,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> tuple[int, int, int, int]:
    """Error, timestamp, offset and leader epoch."""
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition,
                        timestamp=timestamp,
                        current_leader_epoch=epoch,
                    )
                ],
            )
        ],
    )
    promise = broker.start(list_offsets, request, version)
    if not promise.done:  # a search by time, which does not run on the loop
        broker.scheduler.run_for(1)
    answer = broker.answer(list_offsets, request, promise, version, ListOffsetsResponse)
    ((found,),) = [each.partitions for each in answer.topics]
    assert found.partition_index == partition
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
def test_latest_and_earliest_are_told_in_every_version(broker: Broker, version: int) -> None:
    epoch = 3 if version >= 4 else -1
    assert listed(broker, -1, version=version) == (0, -1, 5, epoch)
    assert listed(broker, -2, version=version) == (0, -1, 0, epoch)


@pytest.mark.parametrize(
    ("timestamp", "since", "found"),
    [
        (-3, 7, (0, BASE + 30, 1, 3)),
        (-4, 8, (0, -1, 0, 3)),
        (-5, 9, NOTHING),
        (-6, 11, NOTHING),
    ],
)
def test_special_timestamps_are_known_from_their_version_on(
    broker: Broker, timestamp: int, since: int, found: tuple[int, int, int, int]
) -> None:
    for version in range(1, since):
        refused = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
        assert listed(broker, timestamp, version=version) == refused
    for version in range(since, 12):
        assert listed(broker, timestamp, version=version) == found


@pytest.mark.parametrize("timestamp", [-7, -100])
def test_other_negative_timestamps_are_not_known(broker: Broker, timestamp: int) -> None:
    assert listed(broker, timestamp)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("timestamp", "offset", "of_record"),
    [(0, 0, 10), (BASE + 10, 0, 10), (BASE + 11, 1, 30), (BASE + 20, 1, 30), (BASE + 30, 1, 30)],
)
def test_a_timestamp_finds_the_first_record_that_is_not_older(
    broker: Broker, timestamp: int, offset: int, of_record: int
) -> None:
    assert listed(broker, timestamp) == (0, BASE + of_record, offset, 3)


def test_a_timestamp_after_the_last_record_finds_nothing(broker: Broker) -> None:
    assert listed(broker, BASE + 31) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(-1, (0, -1, 0, 3)), (-2, (0, -1, 0, 3)), (-3, NOTHING), (BASE, NOTHING)],
)
def test_an_empty_partition_has_a_beginning_and_an_end_and_nothing_between(
    broker: Broker, timestamp: int, found: tuple[int, int, int, int]
) -> None:
    assert listed(broker, timestamp, partition=1) == found


def test_after_records_were_deleted_the_earliest_is_where_the_log_begins(broker: Broker) -> None:
    broker.log_of("t").delete_records_before(2)
    assert listed(broker, -2) == (0, -1, 2, 3)
    assert listed(broker, BASE)[2] == 2


def test_under_read_committed_the_latest_is_before_an_open_transaction(broker: Broker) -> None:
    batch = build_batch(
        [Record(timestamp=BASE + 99, value=b"v")],
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    broker.append("t", 0, batch)
    assert listed(broker, -1, isolation_level=0)[2] == 6
    assert listed(broker, -1, isolation_level=1)[2] == 5
    assert listed(broker, BASE + 99, isolation_level=0)[2] == 5
    assert listed(broker, BASE + 99, isolation_level=1) == NOTHING


def test_an_isolation_level_that_does_not_exist_is_refused(broker: Broker) -> None:
    assert listed(broker, -1, isolation_level=7)[0] == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (3, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_clients_of_another_epoch_are_told(broker: Broker, epoch: int, code: ErrorCode) -> None:
    assert listed(broker, -1, epoch=epoch)[0] == code


UNSERVED = [
    ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("bad/", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("far", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("followed", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
]


@pytest.mark.parametrize(("topic", "partition", "code"), UNSERVED)
def test_partitions_of_others_and_of_nobody_are_told_apart(
    broker: Broker, topic: str, partition: int, code: ErrorCode
) -> None:
    assert listed(broker, -1, topic=topic, partition=partition) == (code, -1, -1, -1)


def test_a_partition_that_is_asked_for_twice_is_refused_once(broker: Broker) -> None:
    twice = ListOffsetsTopic(
        name="t",
        partitions=[
            ListOffsetsPartition(partition_index=0, timestamp=-1),
            ListOffsetsPartition(partition_index=1, timestamp=-1),
        ],
    )
    once = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)]
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[twice, once])
    (topic,) = broker.ask(list_offsets, request, 11, ListOffsetsResponse).topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]


# OffsetForLeaderEpoch


def end_of(
    broker: Broker,
    epoch: int,
    *,
    version: int = 4,
    topic: str = "t",
    partition: int = 0,
    current: int = -1,
) -> tuple[int, int, int]:
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                ],
            )
        ]
    )
    answer = broker.ask(offset_for_leader_epoch, request, version, OffsetForLeaderEpochResponse)
    ((found,),) = [each.partitions for each in answer.topics]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_at_the_end_of_the_log(broker: Broker, version: int) -> None:
    assert end_of(broker, 3, version=version) == (0, 3, 5)


def test_an_earlier_epoch_ends_where_the_next_began(broker: Broker) -> None:
    lead(broker.partition("t"), 1, 6, (1,))
    broker.produce("t")
    assert end_of(broker, 3) == (0, 3, 5)
    assert end_of(broker, 5) == (0, 3, 5)
    assert end_of(broker, 6) == (0, 6, 6)


@pytest.mark.parametrize("epoch", [-1, 7])
def test_an_epoch_that_is_not_known_has_no_end_and_no_error(broker: Broker, epoch: int) -> None:
    assert end_of(broker, epoch) == (0, -1, -1)


@pytest.mark.parametrize(
    ("current", "code"),
    [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_who_asks_in_another_epoch_is_refused(
    broker: Broker, current: int, code: ErrorCode
) -> None:
    assert end_of(broker, 3, current=current) == (code, -1, -1)


@pytest.mark.parametrize(("topic", "partition", "code"), UNSERVED)
def test_only_the_leader_knows_where_an_epoch_ended(
    broker: Broker, topic: str, partition: int, code: ErrorCode
) -> None:
    assert end_of(broker, 0, topic=topic, partition=partition) == (code, -1, -1)


# DeleteRecords


def deleted(
    broker: Broker, offset: int, *, version: int = 2, topic: str = "t", partition: int = 0
) -> tuple[int, int]:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
            )
        ],
        timeout_ms=0,
    )
    answer = broker.ask(delete_records, request, version, DeleteRecordsResponse)
    ((found,),) = [each.partitions for each in answer.topics]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_log_begins_at_the_offset_before_which_records_were_deleted(
    broker: Broker, version: int
) -> None:
    assert deleted(broker, 2, version=version) == (0, 2)
    assert broker.log_of("t").log_start_offset == 2


def test_what_is_deleted_already_stays_deleted(broker: Broker) -> None:
    deleted(broker, 3)
    assert deleted(broker, 1) == (0, 3)


def test_minus_one_deletes_up_to_the_high_watermark(broker: Broker) -> None:
    assert deleted(broker, -1) == (0, 5)
    assert listed(broker, -2)[2] == listed(broker, -1)[2] == 5


def test_a_topic_that_is_only_compacted_keeps_its_records() -> None:
    broker = Broker({"log.cleanup.policy": "compact"})
    broker.add_topic("t")
    assert deleted(broker, 0) == (ErrorCode.POLICY_VIOLATION, -1)
    both = Broker({"log.cleanup.policy": "compact,delete"})
    both.add_topic("t")
    assert deleted(both, 0) == (0, 0)


@pytest.mark.parametrize("offset", [6, -2, 1 << 40])
def test_offsets_that_are_not_there_cannot_be_deleted(broker: Broker, offset: int) -> None:
    assert deleted(broker, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert broker.log_of("t").log_start_offset == 0


@pytest.mark.parametrize(("topic", "partition", "code"), UNSERVED)
def test_records_are_deleted_by_the_leader_alone(
    broker: Broker, topic: str, partition: int, code: ErrorCode
) -> None:
    assert deleted(broker, 0, topic=topic, partition=partition) == (code, -1)


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(broker: Broker) -> None:
    def topic(offset: int) -> DeleteRecordsTopic:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        return DeleteRecordsTopic(name="t", partitions=[partition])

    request = DeleteRecordsRequest(topics=[topic(4), topic(1)])
    (answered,) = broker.ask(delete_records, request, 2, DeleteRecordsResponse).topics
    assert [(p.partition_index, p.low_watermark) for p in answered.partitions] == [(0, 1)]


def test_a_refusal_of_the_whole_request_reaches_every_partition(broker: Broker) -> None:
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition()])]
    )
    answer = delete_records.refuse(request, ClusterAuthorizationFailed(), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    epochs = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()])]
    )
    refused = offset_for_leader_epoch.refuse(epochs, ClusterAuthorizationFailed(), 0)
    assert refused.topics[0].partitions[0].end_offset == -1
