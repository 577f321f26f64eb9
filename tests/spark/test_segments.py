"""Ranges read from segment files give the rows that the broker gives, come what may."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.small_segments import Tiered, Writer, fill, log_of, made
from tests.spark.topics import Row, Topics, numbered
from tests.waiting import eventually

from ottla.client.descriptions import ConfigChange, ConfigResource
from ottla.client.errors import BrokerUnavailable
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.schema import TYPES, Columns
from ottla.spark.errors import BadOption, DataLoss
from ottla.spark.source.broker_reads import BrokerReads, Refused
from ottla.spark.source.offsets import Offsets
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import plan_batch, read_range
from ottla.spark.source.segment_files import LocalSegment, RemoteSegment
from ottla.spark.source.segment_placement import place_ranges
from ottla.spark.source.segments import SegmentRange
from ottla.tiered.segments import EpochStart

TOPIC = 2
NAMES = [name for name in TYPES if name != "timestampType"]


def options_of(topics: Topics, topic: str, **more: str) -> SourceOptions:
    quick = {"fetchOffset.retryIntervalMs": "10", "kafkaConsumer.pollTimeoutMs": "2000"}
    named = {key.replace("_", "."): value for key, value in more.items()}
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **quick, **named}
    return SourceOptions.parse(given)


def rows_of(options: SourceOptions, ranges: list[OffsetRange]) -> list[dict[str, object]]:
    return [
        row
        for wanted in ranges
        for table in read_range(wanted, options, Columns(NAMES))
        for row in table.to_pylist()
    ]


def compared(topics: Topics, topic: str, **more: str) -> list[OffsetRange]:
    """The plan from segments, whose rows are those that come by fetch."""
    by_fetch = options_of(topics, topic, **{**more, "readFrom": "broker"})
    planned = plan_batch(options := options_of(topics, topic, **{"readFrom": "segments", **more}))
    assert rows_of(options, planned) == rows_of(by_fetch, plan_batch(by_fetch))
    assert any(isinstance(each, SegmentRange) for each in planned)
    return planned


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_closed_segments_are_read_from_files_and_only_the_tail_is_fetched(
    files: Topics, codec: str
) -> None:
    topic = made(files)
    fill(
        files, topic, [Row(0, b"k", None, 5, (("h", b"x"), ("n", None))), *numbered(0, 999)], codec
    )
    planned = compared(files, topic)
    kinds = [isinstance(each, SegmentRange) for each in planned]
    assert kinds == [True] * (len(planned) - 1) + [False]
    assert len(planned) > 3


def test_a_range_begins_and_ends_anywhere(files: Topics) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 600))
    for start, end in [(0, 600), (1, 599), (119, 121), (120, 240), (133, 134), (17, 590)]:
        compared(
            files,
            topic,
            startingOffsets=f'{{"{topic}":{{"0":{start}}}}}',
            endingOffsets=f'{{"{topic}":{{"0":{end}}}}}',
            minPartitions="9",
        )


def test_aborted_transactions_are_filtered_also_where_they_span_segments(files: Topics) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 100))
    one, other = Writer(files, topic, "one"), Writer(files, topic, "other")
    for number in range(6):
        one.begin([b"%d of one in %d" % (i, number) for i in range(30)])
        other.transaction([b"%d in %d" % (i, number) for i in range(20)], commit=number % 3 == 0)
        one.end(commit=number % 2 == 0)
        one.transaction([b"%d more in %d" % (i, number) for i in range(5)], commit=number % 3 == 1)
    fill(files, topic, numbered(100, 120))
    for level in ("read_committed", "read_uncommitted"):
        for parts in ("1", "40"):
            compared(files, topic, kafka_isolation_level=level, minPartitions=parts)


def test_an_open_transaction_ends_what_is_read(files: Topics) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 300))
    writer = Writer(files, topic, "open")
    writer.begin([b"%d" % i for i in range(200)])
    fill(files, topic, numbered(300, 600))
    planned = compared(files, topic, kafka_isolation_level="read_committed")
    assert planned[-1].end == 300
    compared(files, topic)
    writer.end(commit=False)
    planned = compared(files, topic, kafka_isolation_level="read_committed")
    assert planned[-1].end > 800


def test_a_compacted_topic_has_gaps_and_no_record_twice(files: Topics, broker: Tiered) -> None:
    topic = made(files, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    rows = [Row(0, b"k%d" % (i % 7), b"%d" % i + bytes(50)) for i in range(900)]
    fill(files, topic, rows)
    eventually(lambda: is_clean(broker, topic), seconds=30)
    planned = compared(files, topic)
    assert len(rows_of(options_of(files, topic), planned)) < 300


def is_clean(broker: Tiered, topic: str) -> bool:
    """Whether the cleaner has been up to the segment that is being written."""
    log = log_of(broker, topic)
    checkpoint = log.parent / "cleaner-offset-checkpoint"
    active = int(max(log.glob("*.log")).stem)
    return checkpoint.exists() and f"{topic} 0 {active}\n" in checkpoint.read_text()


def test_segments_that_were_cleaned_or_removed_after_the_plan_are_asked_of_the_broker(
    files: Topics, broker: Tiered, caplog: pytest.LogCaptureFixture
) -> None:
    topic = made(files)
    rows = [Row(0, b"k%d" % (i % 7), b"%d" % i + bytes(50)) for i in range(900)]
    fill(files, topic, rows)
    options = options_of(files, topic, readFrom="segments")
    planned = plan_batch(options)
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    files.admin.alter_configs(
        {ConfigResource(TOPIC, topic): [ConfigChange(*each) for each in compact.items()]}
    )
    eventually(lambda: is_clean(broker, topic), seconds=30)
    by_fetch = options_of(files, topic, readFrom="broker")
    with caplog.at_level(logging.WARNING):
        assert rows_of(options, planned) == rows_of(by_fetch, plan_batch(by_fetch))
    assert "asked of the broker" in caplog.text


def test_a_segment_that_retention_removes_is_lost_as_the_broker_says(
    files: Topics, broker: Tiered
) -> None:
    topic = made(files, file_delete_delay_ms="0")
    fill(files, topic, numbered(0, 900))
    strict = options_of(files, topic, readFrom="segments")
    planned = plan_batch(strict)
    before = len(list(log_of(broker, topic).glob("*.log")))
    files.cut(topic, 500)
    eventually(lambda: len(list(log_of(broker, topic).glob("*.log"))) < before)
    with pytest.raises(DataLoss, match=rf"{topic}-0: offsets 0 to"):
        rows_of(strict, planned)
    lax = options_of(files, topic, readFrom="segments", failOnDataLoss="false")
    values = [row["value"] for row in rows_of(lax, planned)]
    assert values == [b"%d" % i for i in range(int(values[0]), 900)]  # type: ignore[call-overload]
    assert 0 < int(values[0]) <= 500  # type: ignore[call-overload]
    compared(files, topic)


def test_what_retention_removes_while_files_are_looked_for_is_asked_of_the_broker(
    files: Topics,
) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 200))
    level = {"kafka_isolation_level": "read_committed"}
    options = options_of(files, topic, readFrom="segments", **level)
    wanted = plan_batch(options_of(files, topic, readFrom="broker", **level))

    class Retaining(BrokerReads):
        def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> tuple[Offsets, Refused]:
            listed = super().list_offsets(wanted)
            files.cut(topic, 200)
            return listed

    reads = Retaining(options.kafka)
    try:
        assert place_ranges(options, reads, wanted) == wanted
    finally:
        reads.close()


def test_what_is_rolled_and_written_while_reading_is_not_part_of_the_query(files: Topics) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 400))
    options = options_of(files, topic, readFrom="segments")
    found: list[object] = []
    for number, wanted in enumerate(plan_batch(options)):
        for table in read_range(wanted, options, Columns(["value"])):
            found += table.column(0).to_pylist()
            fill(files, topic, numbered(400 + 100 * number, 500 + 100 * number))
    assert found == [b"%d" % i for i in range(400)]


def test_a_damaged_file_is_not_believed(files: Topics, broker: Tiered) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 400))
    options = options_of(files, topic, readFrom="segments")
    planned = plan_batch(options)
    first = planned[0]
    assert isinstance(first, SegmentRange)
    # The epoch of its last batch: another leader's, of a history that was given up.
    wrong = replace(first, epochs=(EpochStart(7, 0),))
    assert rows_of(options, [wrong, *planned[1:]]) == rows_of(options, planned)
    assert isinstance(first.place, LocalSegment)
    gone = replace(first, place=replace(first.place, directory=f"{broker.directory}/none"))
    assert rows_of(options, [gone, *planned[1:]]) == rows_of(options, planned)
    index = Path(first.place.path(".index"))
    index.write_bytes(bytes(len(index.read_bytes())))
    part = replace(first, start=first.end - 3)
    assert [row["offset"] for row in rows_of(options, [part])] == [*range(part.start, part.end)]


def test_remote_segments_are_read_from_the_store_and_the_rest_from_disk_or_broker(
    files: Topics, broker: Tiered
) -> None:
    topic = made(
        files, remote_storage_enable="true", local_retention_bytes="1", segment_ms="600000"
    )
    fill(files, topic, numbered(0, 300))
    writer = Writer(files, topic, "writer")
    for number in range(6):
        writer.transaction([b"%d in %d" % (i, number) for i in range(40)], commit=number % 2 == 0)
    fill(files, topic, numbered(300, 600))
    eventually(lambda: int(min(log_of(broker, topic).glob("*.log")).stem) > 500, seconds=30)
    store = {"remoteStore": f"file://{broker.store}"}
    for level in ("read_committed", "read_uncommitted"):
        more = {"kafka_isolation_level": level, **store}
        planned = compared(files, topic, readFrom="remote", **more)
        assert sum(isinstance(each, SegmentRange) for each in planned) > 3
        compared(files, topic, readFrom="auto", **more)
        compared(files, topic, readFrom="auto", minPartitions="50", **more)


def test_a_remote_segment_that_is_gone_is_asked_of_the_broker(
    files: Topics, broker: Tiered
) -> None:
    topic = made(files, remote_storage_enable="true", local_retention_bytes="1")
    fill(files, topic, numbered(0, 300))
    eventually(lambda: int(min(log_of(broker, topic).glob("*.log")).stem) > 100, seconds=30)
    store = {"remoteStore": f"file://{broker.store}"}
    options = options_of(files, topic, readFrom="remote", **store)
    planned = plan_batch(options)
    first = planned[0]
    assert isinstance(first, SegmentRange)
    assert isinstance(first.place, RemoteSegment)
    empty = replace(first.place, url=f"file://{broker.directory}")
    lost: list[OffsetRange] = [replace(first, place=empty), *planned[1:]]
    assert rows_of(options, lost) == rows_of(options, planned)


def test_log_directories_that_no_broker_told_for_once_are_asked_for_again(
    files: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 999))
    options = options_of(files, topic, kafka_client_id="asks-again")

    def silent(_reads: BrokerReads) -> dict[int, list[str]]:
        raise BrokerUnavailable("nobody answers", [])

    with monkeypatch.context() as patch:
        patch.setattr(BrokerReads, "log_dirs", silent)
        assert not any(isinstance(each, SegmentRange) for each in plan_batch(options))
    assert any(isinstance(each, SegmentRange) for each in plan_batch(options))


def test_options_that_cannot_be_are_refused(files: Topics, tmp_path: Path) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 100))
    with pytest.raises(BadOption, match="remoteStore"):
        options_of(files, topic, readFrom="remote")
    with pytest.raises(BadOption, match="no log directory that can be read"):
        plan_batch(options_of(files, topic, readFrom="segments", logDirs=str(tmp_path)))
    other = "version=1\nnode.id=1\ncluster.id=another\n"
    (tmp_path / "meta.properties").write_text(other)
    with pytest.raises(BadOption, match="of cluster another"):
        plan_batch(options_of(files, topic, logDirs=f"{tmp_path}/"))
