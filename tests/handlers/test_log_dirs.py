"""DescribeLogDirs and AlterReplicaLogDirs: what lies where, and moving it while it is used."""

import errno

import pytest
from tests.handlers.broker import NODE_ID, PATHS, Broker

from ottla.common.errors import ClusterAuthorizationFailed, ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.handlers import alter_replica_log_dirs, describe_log_dirs
from ottla.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.generated.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication import log_moves

FIRST, SECOND = PATHS
T0 = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Broker:
    """Partition 0 of topic t in the first directory, 1 in the second, 2 in the first."""
    made = Broker()
    made.add_topic("t", 3)
    made.produce("t", 0, tuple(range(1, 6)))
    return made


def described(
    broker: Broker, topics: dict[str, list[int]] | None = None, version: int = 5
) -> dict[str, DescribeLogDirsResult]:
    asked = None
    if topics is not None:
        asked = [
            DescribableLogDirTopic(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
    request = DescribeLogDirsRequest(topics=asked)
    answer = broker.ask(describe_log_dirs, request, version, DescribeLogDirsResponse)
    assert answer.error_code == 0
    return {result.log_dir: result for result in answer.results}


def partitions(result: DescribeLogDirsResult) -> list[tuple[str, int, bool, int]]:
    return [
        (topic.name, partition.partition_index, partition.is_future_key, partition.offset_lag)
        for topic in result.topics
        for partition in topic.partitions
    ]


def move(broker: Broker, path: str, topic: str = "t", partition: int = 0) -> int:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
            )
        ]
    )
    answer = broker.ask(alter_replica_log_dirs, request, 2, AlterReplicaLogDirsResponse)
    ((found,),) = [result.partitions for result in answer.results]
    assert answer.results[0].topic_name == topic
    return found.error_code


@pytest.mark.parametrize("version", range(1, 6))
def test_every_directory_is_described_with_its_partitions_and_its_room(
    broker: Broker, version: int
) -> None:
    results = described(broker, version=version)
    assert list(results) == [FIRST, SECOND]
    assert partitions(results[FIRST]) == [("t", 0, False, 0), ("t", 2, False, 0)]
    assert partitions(results[SECOND]) == [("t", 1, False, 0)]
    size = results[FIRST].topics[0].partitions[0].partition_size
    assert size == broker.log_of("t").size() > 0
    if version >= 4:
        assert results[FIRST].total_bytes >= results[FIRST].usable_bytes > 0
    else:
        assert results[FIRST].total_bytes == -1


def test_only_partitions_that_are_asked_for_are_shown(broker: Broker) -> None:
    results = described(broker, {"t": [0, 9], "nope": [0]})
    assert partitions(results[FIRST]) == [("t", 0, False, 0)]
    assert partitions(results[SECOND]) == []
    assert described(broker, {})[FIRST].topics == []


def test_a_directory_that_failed_has_an_error_and_nothing_in_it(broker: Broker) -> None:
    broker.logs.fail_directory(FIRST, OSError(errno.EIO, "gone"))
    failed = described(broker)[FIRST]
    assert (failed.error_code, failed.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert described(broker)[SECOND].error_code == 0


def test_a_disk_that_does_not_tell_its_size_has_failed(broker: Broker) -> None:
    def fail(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "gone") if (operation, path) == ("space", FIRST) else None

    broker.filesystem.fail = fail
    assert described(broker)[FIRST].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.logs.directories[0].is_online


@pytest.mark.parametrize(("cordoned", "shown"), [(FIRST, [True, False]), ("*", [True, True])])
def test_cordoned_directories_are_shown(cordoned: str, shown: list[bool]) -> None:
    broker = Broker({"cordoned.log.dirs": cordoned})
    assert [result.is_cordoned for result in described(broker).values()] == shown


# Moving


def content(broker: Broker) -> bytes:
    log = broker.log_of("t")
    fetched = log.read(0, 1 << 20, upper_bound_offset=log.log_end_offset, at_least_one=True)
    assert fetched.region is not None
    return fetched.region.read()


@pytest.fixture
def batch_by_batch(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step of the clock move one batch."""
    monkeypatch.setattr(log_moves, "PIECE_BYTES", 1)
    broker.log_moves.bytes_per_second = 1e6


def test_a_partition_is_moved_with_everything_in_it(broker: Broker) -> None:
    before = content(broker)
    assert move(broker, SECOND) == 0
    broker.scheduler.run_for(1.0)
    assert broker.moved == [SECOND]
    log = broker.log_of("t")
    assert log.directory == f"{SECOND}/t-0"
    assert broker.partition("t").log is log
    assert content(broker) == before
    assert (log.high_watermark, log.log_start_offset) == (5, 0)
    assert len(broker.log_moves) == 0
    broker.produce("t")
    assert log.log_end_offset == 6


@pytest.mark.usefixtures("batch_by_batch")
def test_a_move_is_shown_with_what_it_lacks(broker: Broker) -> None:
    move(broker, SECOND)
    broker.scheduler.step()
    assert ("t", 0, True, 4) in partitions(described(broker)[SECOND])
    assert ("t", 0, False, 0) in partitions(described(broker)[FIRST])


@pytest.mark.usefixtures("batch_by_batch")
def test_records_that_come_during_a_move_are_moved_too(broker: Broker) -> None:
    move(broker, SECOND)
    for _ in range(4):
        broker.scheduler.step()
        broker.produce("t")
    broker.log_of("t").delete_records_before(2)
    broker.scheduler.run_for(1.0)
    log = broker.log_of("t")
    assert log.directory == f"{SECOND}/t-0"
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 9, 9)


def test_idempotent_producers_are_known_after_a_move(broker: Broker) -> None:
    def batch(sequence: int) -> bytes:
        record = Record(timestamp=7, value=b"v")
        return bytes(build_batch([record], producer_id=3, producer_epoch=0, base_sequence=sequence))

    broker.append("t", 0, batch(0))
    move(broker, SECOND)
    broker.scheduler.run_for(1.0)
    broker.append("t", 0, batch(0))
    assert broker.log_of("t").log_end_offset == 6
    broker.append("t", 0, batch(1))
    assert broker.log_of("t").log_end_offset == 7


def test_asking_for_the_directory_in_which_it_lies_changes_nothing(broker: Broker) -> None:
    assert move(broker, FIRST) == 0
    assert broker.logs.future_logs == {}


@pytest.mark.usefixtures("batch_by_batch")
def test_asking_for_the_directory_in_which_it_lies_ends_a_move(broker: Broker) -> None:
    move(broker, SECOND)
    broker.scheduler.step()
    move(broker, FIRST)
    assert broker.logs.future_logs == {}
    broker.scheduler.run_for(1.0)
    assert broker.log_of("t").directory == f"{FIRST}/t-0"


@pytest.mark.usefixtures("batch_by_batch")
def test_asking_again_does_not_begin_again(broker: Broker) -> None:
    move(broker, SECOND)
    broker.scheduler.step()
    future = broker.logs.future_logs[T0]
    move(broker, SECOND)
    assert broker.logs.future_logs[T0] is future
    assert len(broker.log_moves) == 1


@pytest.mark.usefixtures("batch_by_batch")
def test_a_move_ends_with_its_topic(broker: Broker) -> None:
    move(broker, SECOND)
    broker.scheduler.step()
    broker.replicas.remove(broker.partition("t").topic_id)
    broker.scheduler.run_for(1.0)
    assert len(broker.log_moves) == 0
    assert broker.logs.future_logs == {}


@pytest.mark.usefixtures("batch_by_batch")
def test_a_move_ends_with_its_disk(broker: Broker) -> None:
    move(broker, SECOND)
    broker.scheduler.step()
    broker.logs.fail_directory(SECOND, OSError(errno.EIO, "gone"))
    broker.scheduler.run_for(1.0)
    assert broker.log_of("t").directory == f"{FIRST}/t-0"
    assert len(broker.log_moves) == 0


@pytest.mark.usefixtures("batch_by_batch")
def test_a_move_that_a_stop_interrupted_goes_on(broker: Broker) -> None:
    broker.logs.create_future(T0, SECOND)
    broker.log_moves.resume()
    broker.scheduler.run_for(1.0)
    assert broker.log_of("t").directory == f"{SECOND}/t-0"


@pytest.mark.usefixtures("batch_by_batch")
def test_a_move_keeps_to_its_rate(broker: Broker) -> None:
    size = broker.log_of("t").size()
    broker.log_moves.bytes_per_second = size / 10
    move(broker, SECOND)
    broker.scheduler.run_for(5.0)
    assert broker.log_of("t").directory == f"{FIRST}/t-0"
    broker.scheduler.run_for(6.0)
    assert broker.log_of("t").directory == f"{SECOND}/t-0"


@pytest.mark.parametrize("path", ["/nope", "relative", f"{FIRST}/"])
def test_a_directory_that_is_not_the_brokers_is_refused(broker: Broker, path: str) -> None:
    assert move(broker, path) == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_directory_that_failed_is_refused(broker: Broker) -> None:
    broker.logs.fail_directory(SECOND, OSError(errno.EIO, "gone"))
    assert move(broker, SECOND) == ErrorCode.KAFKA_STORAGE_ERROR


def test_partitions_that_are_not_here_cannot_be_moved(broker: Broker) -> None:
    broker.add_topic("far", replicas=(7,), leader=7)
    assert move(broker, SECOND, "nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(broker, SECOND, "t", 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(broker, SECOND, "far") == ErrorCode.REPLICA_NOT_AVAILABLE


def test_a_partition_that_comes_later_lies_where_it_was_wanted(broker: Broker) -> None:
    broker.add_topic("far", replicas=(7,), leader=7)
    for path in (FIRST, SECOND):
        move(broker, path, "far")
    broker.add_topic("far", replicas=(NODE_ID,))
    assert broker.log_of("far").directory == f"{SECOND}/far-0"


def test_a_name_that_leaves_no_room_for_the_move_is_refused(broker: Broker) -> None:
    name = "x" * 240
    broker.add_topic(name)
    assert move(broker, SECOND, name) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_refusal_reaches_every_partition() -> None:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/x", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0, 1])]
            )
        ]
    )
    answer = alter_replica_log_dirs.refuse(request, ClusterAuthorizationFailed(), 0)
    assert [p.error_code for p in answer.results[0].partitions] == [31, 31]
