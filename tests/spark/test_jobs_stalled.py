"""Tasks that stand still while another attempt does their work: nothing is doubled."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.kafka_reader import read_committed
from tests.spark.stalled import stalled
from tests.spark.topics import Row, Topics

from ottla.common.topic_partition import TopicPartition
from ottla.spark.jobs.backfill import Backfill, Shape, deal, fill_lane
from ottla.spark.jobs.cut_over import read_mapping
from ottla.spark.jobs.file_tables import find_table, parts_of
from ottla.spark.jobs.repartition import PartitionCopy, Repartition, copy_partition
from ottla.spark.jobs.repartition_plan import Wanted, find_topics, make_topics, next_round
from ottla.spark.jobs.repartition_plan import repartition as prepared
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.stream_writer import MicroBatch, commit_batch, write_task
from ottla.spark.sink.writer import disconnect as end_writes
from ottla.spark.source.broker_reads import connected
from ottla.spark.source.broker_reads import disconnect as end_reads
from ottla.spark.source.options import SourceOptions

RECORDS = 50
STRIDE = 3
"""Of moments that are tried; a transaction has several."""


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    yield
    end_writes()
    end_reads()


def at_all_moments(check: Callable[[int], bool], stride: int = STRIDE) -> int:
    """As long as ``check`` says that the attempt came so far."""
    moment = 1
    while check(moment):
        moment += stride
        assert moment < 1_000
    return moment


def test_a_copy_that_was_overtaken_copies_nothing_again(topics: Topics) -> None:
    source = topics.make()
    rows = [Row(0, b"k%d" % (i % 5), b"%d" % i) for i in range(RECORDS)]
    topics.fill(source, rows)
    numbers = iter(range(1_000))

    def check(moment: int) -> bool:
        job, copy = repartition_of(topics, source, f"{source}-{next(numbers)}")

        def attempt(options: SinkOptions) -> object:
            return copy_partition(copy._replace(repartition=replace(job, sink=options)))

        came, _ = stalled(job.sink, moment, attempt)
        copied = read_committed(topics.address, job.target, 0)
        assert [each.value for each in copied] == [row.value for row in rows], f"moment {moment}"
        mapped = [offset for each in read_mapping(job, 0) for offset in each.source_offsets]
        assert mapped == list(range(RECORDS)), f"moment {moment}"
        return came

    assert at_all_moments(check) > 30


def repartition_of(topics: Topics, source: str, target: str) -> tuple[Repartition, PartitionCopy]:
    servers = {"kafka.bootstrap.servers": topics.address}
    isolation = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}
    options = SourceOptions.parse({**servers, **isolation, "subscribe": source})
    wanted = Wanted(target, source, target, f"{target}-offsets", 1, options, {}, 10)
    reads = connected(options.kafka)
    make_topics(reads, wanted, find_topics(reads, wanted))
    job = prepared(wanted, find_topics(reads, wanted))
    (copy,) = next_round(reads, job).copies
    return job, copy


def test_a_lane_that_was_overtaken_writes_nothing_again(topics: Topics, tmp_path: Path) -> None:
    for part in range(4):
        values = [b"%d" % (part * 10 + i) for i in range(10)]
        pq.write_table(pa.table({"value": pa.array(values)}), tmp_path / f"{part}.parquet")
    table = find_table("parquet", str(tmp_path), None)
    parts = parts_of(table)

    def check(moment: int) -> bool:
        topic = topics.make()
        sink = SinkOptions.parse({"kafka.bootstrap.servers": topics.address, "topic": topic})
        job = Backfill(topic, table, Shape(), sink, TopicPartition(topic, 0), "note=1")
        lane = deal(job, parts)[0]._replace(parts=tuple(parts))

        def attempt(options: SinkOptions) -> object:
            return fill_lane(lane._replace(backfill=replace(job, sink=options)))

        came, _ = stalled(sink, moment, attempt)
        written = [int(each.value or b"-1") for each in read_committed(topics.address, topic, 0)]
        assert written == list(range(40)), f"moment {moment}"
        return came

    assert at_all_moments(check) > 20


def test_a_task_of_a_micro_batch_that_was_overtaken_is_there_once(topics: Topics) -> None:
    table = pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % i for i in range(20)])})

    def check(moment: int) -> bool:
        topic = topics.make()
        given = {"kafka.bootstrap.servers": topics.address, "topic": topic, "exactlyOnce": "true"}
        sink = SinkOptions.parse(given)
        batch = MicroBatch(topic, 7)
        came, written = stalled(sink, moment, lambda each: write_task(each, batch, 0, [table]))
        commit_batch(sink, 7, written[-1:])
        again = write_task(sink, batch, 0, [table])
        assert again.prepared is None, "it is there"
        values = [int(each.value or b"-1") for each in read_committed(topics.address, topic, 0)]
        assert values == list(range(20)), f"moment {moment}"
        return came

    assert at_all_moments(check, 1) > 5
