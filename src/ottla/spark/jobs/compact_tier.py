"""The newest record of each key of the remote segments of a partition; the others go.

What stays is decided by the broker's own cleaner (``storage.cleaning``), so tombstones, delete
horizons, aborted transactions and markers are treated as in a compacted topic: offsets, order and
bytes of what stays do not change. Segments are read from the store and written to a directory of
this machine; when all of them are done, they take the place of the old ones, oldest first.

1. ``COPY_SEGMENT_STARTED`` with the id of a job is told, then the objects are put, the manifest
   last, then ``COPY_SEGMENT_FINISHED`` is told. From that record on all offsets belong to the new
   segment, at once; the leader then removes the old ones, which nobody finds any more.
2. A crash leaves the old segments in use or the new one. What it left in the store is given up by
   the next run, which tells ``DELETE_SEGMENT_STARTED`` for it, and removed by the leader.
3. Oldest first: a tombstone is dropped only when no older value of its key is left.
4. Nothing is swapped in that was made of segments that are not in use any more.
"""

import tempfile
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self

from ottla.client.remote_segments import RemoteSegments
from ottla.client.system_time import SystemTime
from ottla.common.chance import Chance
from ottla.common.errors import ApiError, InvalidRequest
from ottla.common.identifiers import random_uuid
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.spark.jobs.tier_plan import TierRun, groups_of
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.segment_files import RemoteSegment
from ottla.storage import time_index
from ottla.storage.cleaning.cleaned_segment import cleaned_path, create_cleaned_files
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.plan import (
    GroupCleaned,
    GroupPlan,
    MapPlan,
    SegmentToClean,
    SegmentToMap,
)
from ottla.storage.files import OsFilesystem
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.transaction_index import AbortedTransaction
from ottla.tiered.copier import SegmentFiles, remove, upload
from ottla.tiered.driver.stores import open_store
from ottla.tiered.layout import LEADER_EPOCHS_SUFFIX
from ottla.tiered.machine import JOB_ID, RemotePartition
from ottla.tiered.records import encode, metadata_partition
from ottla.tiered.rewrite import rewritten
from ottla.tiered.segments import (
    IF_UNFINISHED,
    RemoteLogMetadata,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
)
from ottla.tiered.store import RemoteStoreError

BUFFER_BYTES: Final = 4 << 20
LOAD_FACTOR: Final = 0.9


class Compaction(NamedTuple):
    """The work of one task."""

    run: TierRun
    kafka: KafkaSettings
    keys_max: int
    timeout_ms: int = 60_000


class Compacted(NamedTuple):
    """What became of a partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    segments: int
    bytes: int
    records: int
    new_segments: int
    new_bytes: int
    new_records: int


class _Rewritten(NamedTuple):
    """A group that is written anew, on this disk."""

    group: TierRun
    files: SegmentFiles
    cleaned: GroupCleaned
    max_timestamp_ms: int


def compact_partition(work: Compaction) -> Compacted:
    result: Compacted | None = None
    for step in compact_steps(work):
        result = step if isinstance(step, Compacted) else result
    assert result is not None
    return result


def compact_steps(work: Compaction) -> Iterator[str | Compacted]:
    """The name of each step that others can see, when it is done; at the end what became of it."""
    with tempfile.TemporaryDirectory(prefix="ottla-compact-tier-") as directory:
        groups = _rewrite(work, directory)
        with Tier(work) as tier:
            if tier.give_up_copies():
                yield "given up"
            for each in groups:
                if _is_worth_it(each):
                    yield from _swap(tier, each)
    yield _result(work, groups)


def _is_worth_it(each: _Rewritten) -> bool:
    """A segment needs at least one batch."""
    is_smaller = len(each.group.segments) > 1 or each.cleaned.size < each.group.size
    return is_smaller and each.cleaned.size > 0


def _result(work: Compaction, groups: list[_Rewritten]) -> Compacted:
    first, last = work.run.segments[0].segment, work.run.segments[-1].segment
    return Compacted(
        work.run.owner.topic,
        work.run.owner.partition,
        first.start_offset,
        last.end_offset,
        len(work.run.segments),
        work.run.size,
        sum(each.cleaned.records_read for each in groups),
        len(groups),
        sum(each.cleaned.size for each in groups),
        sum(each.cleaned.records_written for each in groups),
    )


# What stays


class _TierFiles(OsFilesystem):
    """A directory of this machine in which the logs of remote segments can be read."""

    def __init__(self, directory: str, run: TierRun) -> None:
        super().__init__()
        self._run = run
        self._remote = {
            f"{directory}/{file_name(each.base_offset, LOG_SUFFIX)}": each for each in run.segments
        }

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> Any:
        place = self._remote.get(path)
        if place is None:
            return super().open(path, create=create, stays=stays)
        return place.open(self._run.owner.topic_id)


def _rewrite(work: Compaction, directory: str) -> list[_Rewritten]:
    """All groups, written anew; nobody sees anything of it yet."""
    run = work.run
    files = _TierFiles(directory, run)
    aborted = [entry for place in run.segments for entry in place.aborted()]
    cleaner = Cleaner(files, buffer_size=BUFFER_BYTES)
    built = cleaner.build_map(_map_plan(work, directory, aborted))
    if built.end_offset <= run.segments[-1].segment.end_offset:
        raise InvalidRequest(
            f"{run.owner.topic}-{run.owner.partition} has more than {work.keys_max} different "
            f"keys up to offset {built.end_offset}: allow more by --keys (24 bytes of memory each)"
        )
    now_ms = SystemTime().wall_ms()
    groups = []
    for group in groups_of(run):
        plan = _group_plan(group, directory, aborted, now_ms)
        base = plan.segments[0].base_offset
        create_cleaned_files(files, directory, base, transactions=bool(aborted))
        cleaned = cleaner.clean(plan)
        if cleaned.without_key:
            raise InvalidRequest(
                f"{run.owner.topic}-{run.owner.partition} has {cleaned.without_key} records "
                f"without a key from offset {base} on: it cannot be compacted. Nothing was changed"
            )
        groups.append(_rewritten_files(group, directory, base, cleaned))
    return groups


def _map_plan(work: Compaction, directory: str, aborted: list[AbortedTransaction]) -> MapPlan:
    places = work.run.segments
    start, end = places[0].segment.start_offset, places[-1].segment.end_offset + 1
    slots = min(work.keys_max, end - start)
    return MapPlan(
        directory,
        [
            SegmentToMap(place.base_offset, 0, _log_size(place), place.segment.end_offset + 1)
            for place in places
        ],
        start,
        aborted,
        int(slots / LOAD_FACTOR) + 1,
        slots,
    )


def _group_plan(
    group: TierRun, directory: str, aborted: list[AbortedTransaction], now_ms: int
) -> GroupPlan:
    segments = []
    for place in group.segments:
        start, end = place.segment.start_offset, place.segment.end_offset
        touching = [
            entry for entry in aborted if entry.last_offset >= start and entry.first_offset <= end
        ]
        segments.append(SegmentToClean(place.base_offset, _log_size(place), touching))
    return GroupPlan(
        directory,
        segments,
        now_ms,
        group.settings.delete_retention_ms,
        group.segments[-1].segment.end_offset + 1,
        {},  # what producers have written last stands in the snapshots
        group.settings.index_interval_bytes,
        group.settings.index_bytes_max,
        now_ms,
    )


def _log_size(place: RemoteSegment) -> int:
    return place.segment.size_in_bytes


def _rewritten_files(
    group: TierRun, directory: str, base: int, cleaned: GroupCleaned
) -> _Rewritten:
    last = group.segments[-1]
    files = OsFilesystem()
    snapshot = f"{directory}/{file_name(base, SNAPSHOT_SUFFIX)}"
    producers = last.object(SNAPSHOT_SUFFIX)
    files.write(snapshot, producers)
    times = files.read(cleaned_path(directory, base, TIME_INDEX_SUFFIX))
    newest = -1
    if times:
        newest = time_index.ENTRY.unpack_from(times, len(times) - time_index.ENTRY.size)[0]
    transactions = cleaned_path(directory, base, TRANSACTION_INDEX_SUFFIX)
    has_aborted = files.exists(transactions) and files.size(transactions) > 0
    return _Rewritten(
        group,
        SegmentFiles(
            filesystem=files,
            log=cleaned_path(directory, base, LOG_SUFFIX),
            offset_index=cleaned_path(directory, base, OFFSET_INDEX_SUFFIX),
            time_index=cleaned_path(directory, base, TIME_INDEX_SUFFIX),
            transaction_index=transactions if has_aborted else None,
            producer_snapshot=snapshot if producers else None,
            leader_epochs=last.object(LEADER_EPOCHS_SUFFIX),
        ),
        cleaned,
        newest,
    )


# The swap


class Tier:
    """What the metadata topic tells of a partition, and telling it something."""

    def __init__(self, work: Compaction) -> None:
        self._owner = work.run.owner
        place = work.run.segments[0]
        self.store = open_store(place.url, dict(place.settings))
        self._consumer = work.kafka.consumer()
        self._producer = work.kafka.producer()
        self._remote = RemoteSegments(self._consumer, timeout_ms=work.timeout_ms)
        count = len(self._consumer.partitions(REMOTE_LOG_METADATA))
        self._partition = metadata_partition(self._owner, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.close()
        self.store.close()

    def known(self) -> RemotePartition:
        """As it is now."""
        return self._remote.read([self._owner])[self._owner]

    def tell(self, record: RemoteLogMetadata) -> None:
        """It is durable when this returns."""
        self._producer.send(REMOTE_LOG_METADATA, encode(record), partition=self._partition)
        self._producer.flush()

    def update(self, segment: RemoteLogSegment, state: SegmentState) -> None:
        """A removal is only of what nobody has finished by the time that it is told."""
        now_ms = SystemTime().wall_ms()
        is_removal = state is SegmentState.DELETE_SEGMENT_STARTED
        condition = IF_UNFINISHED if is_removal else None
        self.tell(SegmentUpdate(self._owner, segment.segment_id, state, now_ms, JOB_ID, condition))

    def state(self, segment: RemoteLogSegment) -> SegmentState | None:
        found = self.known().segments.get(segment.segment_id)
        return None if found is None else found.state

    def give_up_copies(self) -> int:
        """What jobs have begun and not finished is the leader's to remove; how many there were."""
        left = [
            each
            for each in self.known().segments
            if each.broker_id == JOB_ID and each.state is SegmentState.COPY_SEGMENT_STARTED
        ]
        for each in left:
            self.update(each, SegmentState.DELETE_SEGMENT_STARTED)
        return len(left)


def _swap(tier: Tier, new: _Rewritten) -> Iterator[str]:
    """Let a rewritten segment take the place of its group."""
    segment = _segment(tier, new)
    tier.tell(segment)
    yield "started"
    try:
        upload(tier.store, segment, new.files)
        yield "uploaded"
        _segment(tier, new)  # the old ones may have expired meanwhile, or been replaced
    except (ApiError, RemoteStoreError) as error:
        tier.update(segment, SegmentState.DELETE_SEGMENT_STARTED)
        remove(tier.store, segment)
        raise InvalidRequest(f"{segment.partition}: not swapped in: {error}") from error
    tier.update(segment, SegmentState.COPY_SEGMENT_FINISHED)  # from here on it may count
    if tier.state(segment) is not SegmentState.COPY_SEGMENT_FINISHED:
        remove(tier.store, segment)
        raise InvalidRequest(
            f"{segment.partition}: another job has taken over, or the leader has given the segment "
            "up; what was swapped in before stays"
        )
    yield "finished"


def _segment(tier: Tier, new: _Rewritten) -> RemoteLogSegment:
    """The new segment. InvalidRequest when those that it was made of are not in use."""
    return rewritten(
        tier.known().segments,
        new.group.ids,
        segment_id=random_uuid(Chance()),
        size_in_bytes=new.cleaned.size,
        max_timestamp_ms=new.max_timestamp_ms,
        transaction_index_empty=new.files.transaction_index is None,
        broker_id=JOB_ID,
        now_ms=SystemTime().wall_ms(),
    )
