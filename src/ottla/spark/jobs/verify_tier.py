"""Verifies remote segments: every byte, every batch, every index entry, and that none is missing.

Of each segment: the manifest and what the metadata topic says agree; all objects have the checksums
of the manifest; batches have their own, rising offsets within the segment's, and its leader epochs;
the entries of the indexes lead to the batches that they speak of. Nothing is changed.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from ottla.client.consumer import Consumer
from ottla.client.leader_epochs import leader_epochs
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL
from ottla.client.remote_segments import RemoteSegments
from ottla.common.errors import CorruptMessage, UnknownTopicOrPartition
from ottla.common.identifiers import uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import LENGTH_POSITION, MAGIC, MAGIC_POSITION, batches, read_header
from ottla.spark.source.broker_reads import BrokerReads
from ottla.spark.source.segment_files import WINDOW, RemoteSegment, aborted_transactions
from ottla.storage import offset_index, time_index
from ottla.storage.checkpoints import CorruptCheckpoint, decode_epochs
from ottla.storage.producer_snapshots import CorruptSnapshot, decode_snapshot
from ottla.storage.segment import (
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.tiered.batches import check_batches
from ottla.tiered.cache import SegmentCache
from ottla.tiered.layout import LEADER_EPOCHS_SUFFIX
from ottla.tiered.lineage import Lineage
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment, SegmentState, TopicIdPartition
from ottla.tiered.store import RemoteStoreError


class Verdict(NamedTuple):
    """What was found of a segment; ``problem`` is None when it is sound."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    segment_id: str
    bytes: int
    batches: int = 0
    records: int = 0
    problem: str | None = None


def verify(places: Iterable[RemoteSegment]) -> Iterator[Verdict]:
    for place in places:
        yield verify_segment(place)


def verify_segment(place: RemoteSegment) -> Verdict:
    """Never an error: what cannot be read is told as a problem."""
    segment = place.segment
    verdict = Verdict(
        segment.partition.topic,
        segment.partition.partition,
        segment.start_offset,
        segment.end_offset,
        uuid_text(segment.segment_id),
        segment.size_in_bytes,
    )
    try:
        _check_manifest(place)
        check = _Check(place)
        check.read()
    except (CorruptMessage, CorruptCheckpoint, CorruptSnapshot) as error:
        return verdict._replace(problem=str(error))
    except (RemoteStoreError, OSError) as error:
        return verdict._replace(problem=f"cannot be read: {str(error).partition(chr(10))[0]}")
    return verdict._replace(batches=check.batches, records=check.records)


def _check_manifest(place: RemoteSegment) -> None:
    segment = place.segment
    found = read_manifest(place.store(), segment).segment
    for name in ("start_offset", "end_offset", "size_in_bytes", "leader_epochs"):
        ours, theirs = getattr(segment, name), getattr(found, name)
        if ours != theirs:
            raise CorruptMessage(f"{name} is {ours}, but {theirs} in the manifest")
    entries = decode_epochs(place.object(LEADER_EPOCHS_SUFFIX))
    lineage = Lineage.of(entries, segment.end_offset + 1)
    if lineage.between(segment.start_offset, segment.end_offset) != segment.leader_epochs:
        raise CorruptMessage("the checkpoint of leader epochs has others")
    snapshot = place.object(SNAPSHOT_SUFFIX)
    if snapshot:
        decode_snapshot(snapshot)


class _Check:
    """One pass over the batches, with the entries of the indexes beside it, in order."""

    def __init__(self, place: RemoteSegment) -> None:
        self._place = place
        self._segment: RemoteLogSegment = place.segment
        self._lineage = Lineage(self._segment.leader_epochs, self._segment.end_offset + 1)
        self.batches = 0
        self.records = 0
        base = self._segment.start_offset
        self._offsets = deque(
            (base + relative, position)
            for relative, position in _entries(place, OFFSET_INDEX_SUFFIX, offset_index.ENTRY)
        )
        self._times = deque(
            (stamp, base + relative)
            for stamp, relative in _entries(place, TIME_INDEX_SUFFIX, time_index.ENTRY)
        )
        aborted = aborted_transactions(place.object(TRANSACTION_INDEX_SUFFIX))
        self._markers = deque(each.last_offset for each in aborted)

    def read(self) -> None:
        file = self._place.open(self._segment.partition.topic_id)
        position, offset, size = 0, self._segment.start_offset, WINDOW
        while position < file.size:
            data = file.view_at(position, size)
            end, offset = check_batches(data, offset, self._segment.end_offset)
            if not end and size >= file.size - position:
                raise CorruptMessage(f"it is cut within the batch at position {position}")
            for at, _ in batches(data[:end]):
                self._batch(data, at, position + at)
            position += end
            size = WINDOW if end else 2 * size
        if self._offsets:
            raise CorruptMessage(f"the offset index has {self._offsets[0]}, where no batch is")
        if self._times:
            raise CorruptMessage(f"the time index has {self._times[0]}, which no batch has")
        if self._markers:
            raise CorruptMessage(f"no marker stands at {self._markers[0]}, as the index says")

    def _batch(self, data: memoryview, at: int, position: int) -> None:
        self.batches += 1
        if data[at + MAGIC_POSITION] < MAGIC:
            last = int.from_bytes(data[at : at + LENGTH_POSITION], "big")
            self._pass(last, last, position)
            return
        header = read_header(data, at)
        self.records += header.record_count
        epoch = self._lineage.epoch_at(header.base_offset)
        if header.partition_leader_epoch != epoch:
            raise CorruptMessage(
                f"offset {header.base_offset} is of leader epoch "
                f"{header.partition_leader_epoch} instead of {epoch}"
            )
        if self._markers and header.is_control and self._markers[0] == header.base_offset:
            self._markers.popleft()
        self._pass(header.base_offset, header.last_offset, position, header.max_timestamp)

    def _pass(self, base: int, last: int, position: int, stamp: int | None = None) -> None:
        """Take the entries of the indexes that speak of this batch; old ones tell no time."""
        if self._offsets and self._offsets[0] == (last, position):
            self._offsets.popleft()
        if self._times:
            time, offset = self._times[0]
            if base <= offset <= last and stamp in {None, time}:
                self._times.popleft()


def _entries(place: RemoteSegment, suffix: str, entry: Struct) -> list[tuple[int, int]]:
    data = place.object(suffix)
    if len(data) % entry.size:
        raise CorruptMessage(f"{suffix} has {len(data)} bytes, no multiple of {entry.size}")
    return [(first, second) for first, second in entry.iter_unpack(data)]


class Tier(NamedTuple):
    """What is to be verified, and what is missing already by the metadata."""

    places: list[RemoteSegment]
    missing: list[Verdict]


def find_segments(
    reads: BrokerReads, url: str, settings: tuple[tuple[str, str], ...], topics: Sequence[str]
) -> Tier:
    """The finished remote segments of ``topics``, or of all when none is named.

    UnknownTopicOrPartition for a topic that does not exist.
    """
    known = reads.topics(topics or None)
    for name in topics:
        if name not in known:
            raise UnknownTopicOrPartition(f"topic {name} does not exist")
    owners = [
        TopicIdPartition(topic.topic_id, name, index)
        for name, topic in known.items()
        for index in topic.partitions
    ]
    kafka = reads.settings
    with Consumer(kafka.bootstrap_servers, client_id=kafka.client_id) as consumer:
        remote = RemoteSegments(consumer, timeout_ms=kafka.timing.call_timeout_ms).read(owners)
    tier = Tier([], [])
    for partition in remote.values():
        finished = [
            each for each in partition.segments if each.state is SegmentState.COPY_SEGMENT_FINISHED
        ]
        tier.places.extend(RemoteSegment(url, settings, each) for each in finished)
    where = {TopicPartition(owner.topic, owner.partition): owner for owner in remote}
    firsts, _ = reads.list_offsets(dict.fromkeys(where, EARLIEST))
    locals_, _ = reads.list_offsets(dict.fromkeys(where, EARLIEST_LOCAL))
    for each, owner in where.items():
        first, local = firsts.get(each, 0), locals_.get(each, 0)
        if first < local:  # also where nothing is known of the tier
            tier.missing.extend(_missing(reads, each, (first, local), remote[owner].segments))
    return tier


def _missing(
    reads: BrokerReads, partition: TopicPartition, bounds: tuple[int, int], segments: SegmentCache
) -> Iterator[Verdict]:
    """Offsets between the log start and the local log that no finished segment has."""
    offset, end = bounds
    lineage = Lineage.of(leader_epochs(reads.cluster, partition, offset), end)
    for extent in (*segments.extents(lineage, offset), None):
        start = end if extent is None else extent.start_offset
        if offset < start:
            text = f"offsets {offset} to {start - 1} are in no finished segment"
            yield Verdict(*partition, offset, start - 1, "", 0, problem=text)
        offset = end if extent is None else extent.end_offset + 1
