"""Tasks that write, without Spark: what is in the topics, and what a job does to transactions."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.spark.committed import committed_records, committed_values, visible_values
from tests.spark.topics import Topics

from ottla.client.partitioner import partition_of_key
from ottla.common.errors import (
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    MessageTooLarge,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from ottla.common.topic_partition import TopicPartition
from ottla.records.compression import CODECS
from ottla.spark.codec.schema import HEADERS
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.writer import (
    JobOver,
    Written,
    abort,
    abort_job,
    commit,
    disconnect,
    write,
    write_prepared,
)

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    yield
    disconnect()


def options(address: str, **more: str) -> SinkOptions:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return SinkOptions.parse({"kafka.bootstrap.servers": address, **named})


def table(start: int, end: int) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k%d" % (i % 50),
            "value": b"%d" % i,
            "headers": [{"key": "n", "value": b"%d" % i}],
        }
        for i in range(start, end)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_there_in_the_partitions_of_its_keys(topics: Topics, codec: str) -> None:
    topic = topics.make(3)
    sink = options(
        topics.address, topic=topic, kafka_batch_size="2000", kafka_compression_type=codec
    )
    written = write(sink, 0, [table(0, 700), table(700, 1500)])
    assert written == Written(0, 1500)
    seen = []
    for partition, records in committed_records(topics.address, topic).items():
        numbers = [int(each.value or b"") for each in records]
        assert numbers == sorted(numbers), "in order"
        for each in records:
            assert each.key is not None
            assert partition_of_key(each.key, 3) == partition.partition
            assert each.headers == [("n", each.value)]
        seen += numbers
    assert sorted(seen) == list(range(1500))


def test_many_requests_are_on_their_way_and_nothing_is_lost_or_doubled(topics: Topics) -> None:
    topic = topics.make(4)
    sink = options(
        topics.address, topic=topic, kafka_batch_size="500", kafka_max_request_size="1500"
    )
    write(sink, 0, [table(start, start + 1000) for start in range(0, 10_000, 1000)])
    found = committed_records(topics.address, topic)
    numbers = sorted(int(each.value or b"") for records in found.values() for each in records)
    assert numbers == list(range(10_000))


def test_a_topic_that_is_not_there_and_cannot_be_made_is_named(topics: Topics) -> None:
    sink = options(topics.address, topic="no/topic", kafka_max_block_ms="300")
    with pytest.raises(Exception, match="no/topic"):
        write(sink, 0, [table(0, 1)])


def test_a_partition_that_is_not_there_is_named(topics: Topics) -> None:
    topic = topics.make(2)
    rows = pa.RecordBatch.from_pydict(
        {"value": [b"1"], "topic": [topic], "partition": pa.array([2], pa.int32())}
    )
    with pytest.raises(UnknownTopicOrPartition, match=f"partition 2 of topic {topic}.*0 to 1"):
        write(options(topics.address), 0, [rows])


def test_a_refusal_names_topic_and_partition(topics: Topics) -> None:
    topic = topics.make(1, max_message_bytes="1000")
    with pytest.raises(MessageTooLarge, match=f"{topic}-0: MESSAGE_TOO_LARGE"):
        write(options(topics.address, topic=topic), 0, [table(0, 500)])


def test_a_job_commits_all_its_tasks_or_none(topics: Topics) -> None:
    topic = topics.make(2)
    sink = options(topics.address, topic=topic, exactlyOnce="true")
    written = [
        write_prepared(sink, f"{topic}-job", task, [table(task * 10, task * 10 + 10)])
        for task in range(3)
    ]
    assert [each.records for each in written] == [10, 10, 10]
    assert visible_values(topics.address, topic) == []
    commit(sink, written)
    commit(sink, written)
    wanted = sorted(b"%d" % i for i in range(30))
    assert committed_values(topics.address, topic) == wanted
    again = [write_prepared(sink, f"{topic}-job", task, [table(0, 10)]) for task in range(3)]
    abort_job(sink, f"{topic}-job", [*again[:2], None])
    assert committed_values(topics.address, topic) == wanted


def test_a_task_that_runs_on_after_its_job_has_failed_leaves_nothing_open(topics: Topics) -> None:
    """Spark ends the tasks of a failed job a while later, and the driver does not wait for that."""
    first, second = topics.make(1), topics.make(1)
    for topic, sink in (
        (first, options(topics.address, topic=first)),
        (second, options(topics.address)),
    ):
        where = pa.array([topic] * 10, pa.string())
        rows = table(0, 10).append_column("topic", where)
        write_prepared(sink, f"{topic}-job", 0, [rows])
        abort_job(sink, f"{topic}-job", [None, None])
        for task in (0, 1):
            with pytest.raises(JobOver, match=f"{topic}-job has failed, task {task}"):
                write_prepared(sink, f"{topic}-job", task, [rows])
        assert committed_values(topics.address, topic) == []


def test_a_task_without_rows_leaves_nothing_open(topics: Topics) -> None:
    topic = topics.make(1)
    sink = options(topics.address, topic=topic)
    assert write_prepared(sink, f"{topic}-x", 7, [table(0, 0)]) == Written(7, 0)
    assert write(sink, 7, []) == Written(7, 0)
    commit(sink, [Written(7, 0)])


def test_a_second_attempt_fences_the_first(topics: Topics) -> None:
    topic = topics.make(1)
    sink = options(topics.address, topic=topic)
    first = write_prepared(sink, f"{topic}-x", 0, [table(0, 10)])
    second = write_prepared(sink, f"{topic}-x", 0, [table(0, 10)])
    with pytest.raises((ProducerFenced, InvalidProducerEpoch), match=f"{topic}-x"):
        commit(sink, [first])
    commit(sink, [second])
    assert committed_values(topics.address, topic) == sorted(b"%d" % i for i in range(10))


def test_a_task_that_fails_aborts_at_once(topics: Topics) -> None:
    topic = topics.make(1)
    sink = options(topics.address, topic=topic, kafka_batch_size="500")
    bad = pa.RecordBatch.from_pydict({"value": [b"1"], "partition": pa.array([9], pa.int32())})
    with pytest.raises(UnknownTopicOrPartition):
        write_prepared(sink, f"{topic}-x", 0, [table(0, 1000), bad])
    assert committed_values(topics.address, topic) == []


def test_a_timeout_beyond_the_brokers_largest_is_refused_by_name(topics: Topics) -> None:
    sink = options(topics.address, topic="t", kafka_transaction_timeout_ms="900001")
    with pytest.raises(InvalidTransactionTimeout, match="transactional id"):
        write_prepared(sink, "too-long", 0, [table(0, 1)])


def test_where_the_first_records_went_is_told(topics: Topics) -> None:
    topic = topics.make(1)
    sink = options(topics.address, topic=topic)
    written = write_prepared(sink, f"{topic}-x", 0, [table(0, 3)])
    assert written.first == TopicPartition(topic, 0)
    abort(sink, [written], str)
