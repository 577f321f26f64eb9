"""Finds the files that have the records of ranges, when a query is planned.

Local files are those of log directories that this machine can read: named by ``logDirs``, or told
by the brokers and proven by their ``meta.properties`` to be of this cluster. Remote ones are told
by ``__remote_log_metadata`` and lie at ``remoteStore``. What is newest and what is committed is
always the leader's word; here only files are looked for.

Of a replica that does not lead only what it has in common with the leader counts: its leader epochs
are compared, and its transaction index is believed no further than that.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ottla.client.leader_epochs import leader_epochs
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from ottla.common.errors import ApiError, CorruptMessage, OffsetOutOfRange
from ottla.common.topic_partition import TopicPartition
from ottla.spark.errors import BadOption
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.broker_reads import BrokerReads, connected
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.segment_files import (
    LocalSegment,
    RemoteSegment,
    local_segment,
    local_topic_id,
)
from ottla.spark.source.segments import (
    OPEN_END,
    Aborted,
    Placement,
    Stretch,
    split_past_brokers,
)
from ottla.storage.checkpoints import (
    LEADER_EPOCHS,
    META_PROPERTIES,
    CorruptCheckpoint,
    MetaProperties,
    decode_epochs,
)
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.segment import LOG_SUFFIX, offset_of_file
from ottla.tiered.lineage import Lineage
from ottla.tiered.segments import TopicIdPartition
from ottla.tiered.store import RemoteStoreError

_LOCAL: Final = ("auto", "segments")
_REMOTE: Final = ("auto", "remote")


class LogDir(NamedTuple):
    path: str
    node_id: int


def place_ranges(
    options: SourceOptions, reads: BrokerReads, ranges: Sequence[OffsetRange]
) -> list[OffsetRange]:
    """``ranges`` cut into what files have and what only brokers have, as ``readFrom`` says."""
    placements = _Placements(options, reads) if ranges and options.read_from != "broker" else None
    if placements is None or not placements.may_find:
        return list(ranges)
    placed: list[OffsetRange] = []
    for wanted in ranges:
        placement = placements.find(wanted)
        placed += [wanted] if placement is None else split_past_brokers(wanted, placement)
    return placed


class _Placements:
    def __init__(self, options: SourceOptions, reads: BrokerReads) -> None:
        self._options = options
        self._reads = reads
        self._log_dirs: tuple[LogDir, ...] = ()
        if options.read_from in _LOCAL:
            self._log_dirs = log_dirs(options.kafka, options.log_dirs)
            if options.read_from == "segments" and not self._log_dirs:
                raise BadOption(
                    "readFrom=segments: no log directory of the brokers can be read on this "
                    "machine; name them by the option logDirs, or use readFrom=auto"
                )
        self._store = options.remote_store if options.read_from in _REMOTE else None

    @property
    def may_find(self) -> bool:
        return bool(self._log_dirs) or self._store is not None

    def find(self, wanted: OffsetRange) -> Placement | None:
        """None when no file has anything of it, or the leader does not say what counts."""
        local, node_id = self._local(wanted)
        overlapping = [each for each in local if each.end > wanted.start]
        if not overlapping and self._store is None:
            return None  # all of it is in the segment that is being written
        partition = TopicPartition(wanted.topic, wanted.partition)
        try:
            placement = self._placement(wanted, partition, overlapping, node_id)
            if placement is None or self._options.kafka.isolation_level != READ_COMMITTED:
                return placement
            return replace(placement, aborted=self._aborted(wanted, placement))
        except OffsetOutOfRange:
            return None  # retention was faster: the broker tells what is left
        except (ApiError, OSError, CorruptMessage, RemoteStoreError):
            if self._options.read_from != "auto":
                raise
            return None

    def _placement(
        self, wanted: OffsetRange, partition: TopicPartition, local: list[Stretch], node_id: int
    ) -> Placement | None:
        first, refused = self._reads.list_offsets({partition: EARLIEST})
        last, refused_too = self._reads.list_offsets({partition: LATEST})
        if refused or refused_too:
            return None
        start, end = first[partition], last[partition]
        entries = leader_epochs(self._reads.cluster, partition, start)
        lineage = Lineage.of(entries, end)
        if local and node_id != self._reads.cluster.metadata.leader(partition):
            local = _common(local, lineage, max(wanted.start, start))
        stretches = local
        if self._store is not None and not _covers(local, wanted, end):
            stretches = fill(local, self._remote(wanted, lineage, start))
        return Placement(lineage, start, tuple(stretches)) if stretches else None

    # Where

    def _local(self, wanted: OffsetRange) -> tuple[list[Stretch], int]:
        """The closed segments on this machine, of the leader if there is a choice."""
        partition = TopicPartition(wanted.topic, wanted.partition)
        leader = self._reads.cluster.metadata.leader(partition)
        found: list[tuple[str, int]] = []
        for path, node_id in self._log_dirs:
            directory = f"{path}/{wanted.topic}-{wanted.partition}"
            if local_topic_id(directory) == wanted.topic_id:
                found.append((directory, node_id))
        if not found:
            return [], -1
        directory, node_id = min(found, key=lambda each: each[1] != leader)
        return closed_segments(directory), node_id

    def _remote(self, wanted: OffsetRange, lineage: Lineage, start: int) -> list[Stretch]:
        assert self._store is not None
        owner = TopicIdPartition(wanted.topic_id, wanted.topic, wanted.partition)
        known = connected(self._options.kafka).remote_segments.read([owner])[owner]
        settings = self._options.store_settings
        return [
            Stretch(
                extent.start_offset,
                extent.end_offset + 1,
                RemoteSegment(self._store, settings, extent.segment),
                extent.segment.size_in_bytes,
            )
            for extent in known.segments.extents(lineage, max(wanted.start, start))
            if extent.start_offset < wanted.end
        ]

    # Transactions

    def _aborted(self, wanted: OffsetRange, placement: Placement) -> tuple[Aborted, ...]:
        """Those that have records in the stretches.

        The marker of one stands in the same run of files, whose indexes tell of it, or behind it;
        then the transaction is open at the last offset of the run, of which the broker tells.
        """
        found: dict[tuple[int, int], Aborted] = {}
        low = max(wanted.start, placement.start_offset)
        high = min(wanted.end, placement.lineage.end_offset)
        following: Stretch | None = None
        for stretch in reversed(placement.stretches):
            if stretch.end <= low or stretch.start >= high:
                continue
            if following is None or following.start != stretch.end:
                for open_one in self._open_at(wanted, min(stretch.end, high) - 1):
                    found[open_one[:2]] = open_one
            following = stretch
            for entry in stretch.place.aborted():
                if stretch.start <= entry.last_offset < stretch.end:
                    key = (entry.producer_id, entry.first_offset)
                    found[key] = Aborted(*key, entry.last_offset)
        return tuple(sorted(found.values(), key=lambda each: each.first_offset))

    def _open_at(self, wanted: OffsetRange, offset: int) -> list[Aborted]:
        """What a fetch of one batch tells of aborted transactions that go on at ``offset``."""
        reads = connected(replace(self._options.kafka, partition_bytes_max=1))
        fetching = reads.fetching(TopicPartition(wanted.topic, wanted.partition), wanted.topic_id)
        try:
            fetched = fetching.fetch(offset)
        finally:
            fetching.close()
        return [Aborted(*each, OPEN_END) for each in fetched.aborted or ()]


def log_dirs(settings: KafkaSettings, named: tuple[str, ...]) -> tuple[LogDir, ...]:
    """The log directories of the cluster that can be read here; none while no broker tells them."""
    try:
        return _named_log_dirs(settings, named) if named else _told_log_dirs(settings)
    except (ApiError, OSError):
        if named:
            raise
        return ()


@cache
def _named_log_dirs(settings: KafkaSettings, named: tuple[str, ...]) -> tuple[LogDir, ...]:
    cluster_id = connected(settings).cluster.refresh([]).cluster_id
    return tuple(LogDir(path, _owner(path, cluster_id)) for path in named)


@cache
def _told_log_dirs(settings: KafkaSettings) -> tuple[LogDir, ...]:
    """Those that brokers tell, and that are theirs."""
    reads = connected(settings)
    cluster_id = reads.cluster.refresh([]).cluster_id
    found: list[LogDir] = []
    for node_id, paths in sorted(reads.log_dirs().items()):
        for path in paths:
            with suppress(BadOption):
                if _owner(path, cluster_id) == node_id:
                    found.append(LogDir(path, node_id))
    return tuple(found)


def _owner(path: str, cluster_id: str | None) -> int:
    """Which node a log directory belongs to."""
    try:
        owner = MetaProperties.decode(Path(path, META_PROPERTIES).read_bytes())
    except (OSError, CorruptCheckpoint) as error:
        raise BadOption(f"logDirs: {path} is no log directory that can be read: {error}") from None
    if owner.cluster_id != cluster_id:
        raise BadOption(f"logDirs: {path} is of cluster {owner.cluster_id}, not of {cluster_id}")
    return owner.node_id


def closed_segments(directory: str) -> list[Stretch]:
    """All segments of a log but the last, which is being written; in order."""
    try:
        names = os.listdir(directory)  # noqa: PTH208
    except OSError:
        return []
    offsets = (offset_of_file(name) for name in names if name.endswith(LOG_SUFFIX))
    bases = sorted(offset for offset in offsets if offset is not None)
    found: list[Stretch] = []
    for base, following in pairwise(bases):
        segment: LocalSegment | None = local_segment(directory, base, following)
        if segment is not None and segment.size:
            found.append(Stretch(base, following, segment, segment.size))
    return found


def _common(local: Sequence[Stretch], lineage: Lineage, start: int) -> list[Stretch]:
    """What a replica has in common with its leader."""
    place = local[0].place
    assert isinstance(place, LocalSegment)
    try:
        theirs = decode_epochs(Path(place.directory, LEADER_EPOCHS).read_bytes())
    except (OSError, CorruptCheckpoint):
        return []
    end = divergence(theirs, lineage, start)
    return [stretch for stretch in local if stretch.end <= end]


def divergence(theirs: list[EpochEntry], lineage: Lineage, start: int) -> int:
    """The first offset from ``start`` on that is of another epoch there than here."""
    epochs = LeaderEpochs(theirs)
    borders = {start, *(each.start_offset for each in theirs)}
    borders |= {each.start_offset for each in lineage.epochs}
    for border in sorted(border for border in borders if border >= start):
        if border >= lineage.end_offset:
            break
        if epochs.epoch_for_offset(border) != lineage.epoch_at(border):
            return border
    return OPEN_END


def _covers(stretches: Sequence[Stretch], wanted: OffsetRange, end: int) -> bool:
    """Whether the local part begins where the range does: nothing older is to be looked for."""
    return bool(stretches) and stretches[0].start <= wanted.start and wanted.start < end


def fill(first: Sequence[Stretch], second: Iterable[Stretch]) -> list[Stretch]:
    """``first``, and of ``second`` what it does not have; in order."""
    filled = list(first)
    for stretch in second:
        start = stretch.start
        for known in (*first, None):
            end = stretch.end if known is None else min(known.start, stretch.end)
            if start < end:
                filled.append(stretch._replace(start=start, end=end))
            if known is not None:
                start = max(start, known.end)
    return sorted(filled, key=lambda each: each.start)
