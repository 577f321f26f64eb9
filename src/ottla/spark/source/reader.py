"""Batch queries: which ranges there are, and the records of one range as Arrow.

``read_range`` runs in the executors. It returns exactly the records that a consumer of the same
offsets would get; if it cannot, it says so and does not end early.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from ottla.common.errors import (
    ApiError,
    CorruptMessage,
    ErrorCode,
    OffsetOutOfRange,
    UnknownTopicId,
)
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.decoding import BatchDecoder
from ottla.spark.codec.schema import Columns
from ottla.spark.dead_letters import DeadLetters
from ottla.spark.errors import UNREADABLE_ADVICE, DataLoss
from ottla.spark.source.broker_reads import BrokerReads, Fetched, PartitionFetch, connected
from ottla.spark.source.formatted_reads import columns_to_read, formatted
from ottla.spark.source.offsets import Offsets, TopicIds
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.positions import Positions, report_loss
from ottla.spark.source.ranges import OffsetRange, plan
from ottla.spark.source.segment_placement import place_ranges
from ottla.spark.source.segments import SegmentRange, read_segment_range

_POLL_TIMEOUT_MS = 120_000
UNREADABLE: Final = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
)
"""What a broker says that has records and cannot read them."""


def plan_batch(options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a whole query, from what the brokers say now."""
    reads = connected(options.kafka)
    positions = Positions(options, reads)
    partitions, topic_ids = positions.assigned()
    starts = positions.starting(partitions)
    ends = positions.ending(partitions)
    return plan_ranges(options, reads, topic_ids, starts, ends)


def plan_ranges(
    options: SourceOptions,
    reads: BrokerReads,
    topic_ids: TopicIds,
    starts: Offsets,
    ends: Offsets,
) -> list[OffsetRange]:
    """From each start to its end, split as the options say, and where files end."""
    sized = options.bytes_per_partition_max is not None or options.min_partitions is not None
    ranges = _ranges(reads, topic_ids, starts, ends, sized=sized)
    return _cut(options, place_ranges(options, reads, ranges))


def plan_tasks(
    options: SourceOptions,
    reads: BrokerReads,
    topic_ids: TopicIds,
    starts: Offsets,
    ends: Offsets,
) -> list[tuple[OffsetRange, ...]]:
    """The same for a micro-batch: what each task reads, one part after another.

    Tasks are cut by offsets alone, whatever files there are by now: a micro-batch that is run again
    has the same rows in the same tasks, which is what sinks that write exactly once rely on.
    """
    sized = options.bytes_per_partition_max is not None
    cut = _cut(options, _ranges(reads, topic_ids, starts, ends, sized=sized))
    parts = iter(place_ranges(options, reads, cut))
    tasks: list[tuple[OffsetRange, ...]] = []
    for task in cut:
        taken = [next(parts)]
        while taken[-1].end < task.end:
            taken.append(next(parts))
        tasks.append(tuple(taken))
    return tasks


def _ranges(
    reads: BrokerReads, topic_ids: TopicIds, starts: Offsets, ends: Offsets, *, sized: bool
) -> list[OffsetRange]:
    filled = {each: end for each, end in ends.items() if end > starts.get(each, end)}
    sizes = reads.record_sizes(filled) if sized and filled else {}
    return [
        OffsetRange(
            each.topic,
            topic_ids[each.topic],
            each.partition,
            starts[each],
            end,
            sizes.get(each, 0.0),
        )
        for each, end in sorted(filled.items())
    ]


def _cut(options: SourceOptions, ranges: list[OffsetRange]) -> list[OffsetRange]:
    return plan(
        ranges,
        parts_min=options.min_partitions,
        records_max=options.records_per_partition_max,
        bytes_max=options.bytes_per_partition_max,
    )


def read_task(
    parts: Iterable[OffsetRange], options: SourceOptions, columns: Columns
) -> Iterator[pa.RecordBatch]:
    for each in parts:
        yield from read_range(each, options, columns)


def read_range(
    wanted: OffsetRange, options: SourceOptions, columns: Columns, *, keep: bool = False
) -> Iterator[pa.RecordBatch]:
    """The records of a range. Each table is overwritten by the next, unless ``keep``."""
    formats = options.formats
    if formats.values.raw():
        return _read_bytes(wanted, options, columns, keep)
    tables = _read_bytes(wanted, options, columns_to_read(columns), keep)
    dead = DeadLetters(options.kafka, formats.dead_letter_topic, formats.dead_letter_max)
    return formatted(tables, formats.values, columns, dead)


def _read_bytes(
    wanted: OffsetRange, options: SourceOptions, columns: Columns, keep: bool
) -> Iterator[pa.RecordBatch]:
    if isinstance(wanted, SegmentRange):
        return read_segment_range(
            wanted,
            columns,
            lambda rest: _BrokerRange(rest, options, columns).read(keep=keep),
            keep=keep,
        )
    return _BrokerRange(wanted, options, columns).read(keep=keep)


class _BrokerRange:
    """A range that is fetched from its leader."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions, columns: Columns) -> None:
        self._wanted = wanted
        self._options = options
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._reads = connected(options.kafka)
        self._decoder = BatchDecoder(columns, wanted.topic, wanted.partition)
        self._attempts = 0
        """How often the broker failed at the same offset."""

    def read(self, *, keep: bool) -> Iterator[pa.RecordBatch]:
        fetching = self._reads.fetching(self._partition, self._wanted.topic_id)
        try:
            yield from self._read(fetching, keep)
        finally:
            fetching.close()

    def _read(self, fetching: PartitionFetch, keep: bool) -> Iterator[pa.RecordBatch]:
        offset, end = self._wanted.start, self._wanted.end
        patience = self._options.poll_timeout_ms or _POLL_TIMEOUT_MS
        deadline = self._reads.cluster.deadline(patience)
        while offset < end:
            try:
                fetched = fetching.fetch(offset)
            except OffsetOutOfRange:
                if deadline.passed:
                    raise
                offset, before = self._out_of_range(offset), offset
                if offset == before:  # it is there: its leader may be about to know
                    self._pause()
                continue
            except UnknownTopicId as error:
                self._lost(f"{self._partition}: {error}, offsets {offset} to {end - 1} are gone")
                return
            except ApiError as error:
                if error.code not in UNREADABLE:
                    raise
                offset = self._unreadable(offset, error)
                continue
            self._attempts = 0
            if not fetched.records:
                if deadline.passed:
                    self._stalled(offset, fetched, patience)
                    return
                continue
            scanned = self._decoder.scan(fetched.records)
            if not scanned.consumed:
                raise CorruptMessage(
                    f"{self._partition}: the broker sent {len(fetched.records)} bytes for offset "
                    f"{offset} without a whole batch"
                )
            low, offset = offset, max(offset, scanned.next_offset)
            if offset < end:
                fetching.ask(offset)  # it comes while this one is decoded
            yield from self._decoder.tables(scanned, low, end, aborted=fetched.aborted, keep=keep)
            deadline = self._reads.cluster.deadline(patience)

    def _pause(self) -> None:
        self._reads.cluster.clock.wait(self._options.retry_interval_ms / 1000)

    def _lost(self, what: str) -> None:
        report_loss(self._options, what)

    def _out_of_range(self, offset: int) -> int:
        """Where to go on when what was to be read is not there."""
        end = self._wanted.end
        positions = Positions(self._options, self._reads)
        first = positions.at(EARLIEST, [self._partition]).get(self._partition)
        last = positions.at(LATEST, [self._partition]).get(self._partition)
        if first is None or last is None:
            self._lost(
                f"{self._partition}: offsets {offset} to {end - 1} are gone, as is the topic"
            )
            return end
        if first <= offset <= last:
            return offset  # another leader had less, or it came back
        go_on = min(first, end) if offset < first else end
        self._lost(
            f"{self._partition}: offsets {offset} to {go_on - 1} are gone, there are only those "
            f"from {first} to {last - 1}"
        )
        return go_on

    def _unreadable(self, offset: int, error: ApiError) -> int:
        """Where to go on when the broker has records and cannot read them; it may be a mood."""
        self._attempts += 1
        if self._attempts <= self._options.retries:
            self._pause()
            return offset
        end = self._wanted.end
        positions = Positions(self._options, self._reads)
        local = positions.at(EARLIEST_LOCAL, [self._partition]).get(self._partition, end)
        go_on = min(local, end) if offset < local else end
        report_loss(
            self._options,
            f"{self._partition}: offsets {offset} to {go_on - 1} cannot be read, the broker says "
            f"{error.code.name}",
            UNREADABLE_ADVICE,
        )
        self._attempts = 0
        return go_on

    def _stalled(self, offset: int, fetched: Fetched, patience: int) -> None:
        what = f"{self._partition}: nothing came for offset {offset} within {patience} ms"
        if fetched.end >= self._wanted.end:
            raise DataLoss(f"{what}, though the partition goes on to {fetched.end}")
        self._lost(f"{what}: the partition ends at {fetched.end}, not at {self._wanted.end}")
