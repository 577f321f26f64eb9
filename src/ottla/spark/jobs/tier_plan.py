"""Which remote segments of a partition can be compacted now.

From the log start on, those that follow one another in the leader's own history, that are wholly
below what its disk has, and that no transaction reaches out of: whether such a one was aborted is
told by a marker that stands behind them. A run from the log start on is needed for tombstones, too:
one may go only with everything before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.configs import describe_configs
from ottla.client.descriptions import ConfigResource, ResourceType
from ottla.client.leader_epochs import leader_epochs
from ottla.client.metadata import TopicMetadata
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL
from ottla.client.remote_segments import RemoteSegments
from ottla.common.errors import InvalidRequest, UnknownTopicOrPartition
from ottla.common.topic_partition import TopicPartition
from ottla.spark.source.broker_reads import BrokerReads
from ottla.spark.source.segment_files import RemoteSegment
from ottla.storage.producer_snapshots import decode_snapshot
from ottla.storage.segment import SNAPSHOT_SUFFIX
from ottla.tiered.cache import SegmentCache
from ottla.tiered.lineage import Lineage
from ottla.tiered.segments import RemoteLogSegment, TopicIdPartition

OFFSETS_MAX: Final = (1 << 31) - 1
"""Between the ends of a segment: indexes have no more room."""


class TierSettings(NamedTuple):
    """Of a topic, as far as a compaction asks for them."""

    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    index_bytes_max: int


_NAMES: Final = {
    "delete_retention_ms": "delete.retention.ms",
    "segment_bytes": "segment.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "index_bytes_max": "segment.index.bytes",
}


class TierRun(NamedTuple):
    """What can be compacted of a partition."""

    owner: TopicIdPartition
    segments: tuple[RemoteSegment, ...]
    """One behind the other."""
    settings: TierSettings

    @property
    def size(self) -> int:
        return sum(each.segment.size_in_bytes for each in self.segments)

    @property
    def ids(self) -> list[bytes]:
        return [each.segment.segment_id for each in self.segments]


def tier_settings(reads: BrokerReads, topic: str) -> TierSettings:
    """InvalidRequest for a topic that has no remote part, or that must not be compacted so."""
    named = ConfigResource(ResourceType.TOPIC, topic)
    entries = describe_configs(reads.cluster, [named])[named]
    known = {entry.name: entry.value or "" for entry in entries}
    if known.get("remote.storage.enable") != "true":
        raise InvalidRequest(
            f"topic {topic} has no remote storage (remote.storage.enable): for one that is "
            "only on the brokers' disks set cleanup.policy=compact, and they compact it themselves"
        )
    if "compact" in known["cleanup.policy"]:
        raise InvalidRequest(
            f"topic {topic} has cleanup.policy={known['cleanup.policy']}: with remote storage "
            "brokers allow only delete, and their cleaner must not work on the same records"
        )
    return TierSettings(**{field: int(known[name]) for field, name in _NAMES.items()})


def find_runs(
    reads: BrokerReads, url: str, store: tuple[tuple[str, str], ...], topics: Sequence[str]
) -> list[TierRun]:
    """Of all partitions of the topics that have something to compact."""
    known = reads.topics(topics)
    for name in topics:
        if name not in known:
            raise UnknownTopicOrPartition(f"topic {name} does not exist")
    settings = {name: tier_settings(reads, name) for name in topics}
    owners = _owners(known)
    kafka = reads.settings
    with kafka.consumer() as consumer:
        remote = RemoteSegments(consumer, timeout_ms=kafka.timing.call_timeout_ms).read(owners)
    runs = []
    for owner in owners:
        found = [
            RemoteSegment(url, store, each)
            for each in _history(reads, owner, remote[owner].segments)
        ]
        run = TierRun(owner, tuple(decided(found)), settings[owner.topic])
        if run.segments:
            runs.append(run)
    return runs


def _owners(topics: Mapping[str, TopicMetadata]) -> list[TopicIdPartition]:
    return [
        TopicIdPartition(topic.topic_id, name, index)
        for name, topic in topics.items()
        for index in topic.partitions
    ]


def _history(
    reads: BrokerReads, owner: TopicIdPartition, segments: SegmentCache
) -> list[RemoteLogSegment]:
    """From the log start on, below the local log, by the leader's word."""
    partition = TopicPartition(owner.topic, owner.partition)
    first, refused = reads.list_offsets({partition: EARLIEST})
    local, more = reads.list_offsets({partition: EARLIEST_LOCAL})
    for error in (*refused.values(), *more.values()):
        raise error
    start, end = first[partition], local[partition]
    lineage = Lineage.of(leader_epochs(reads.cluster, partition, start), end)
    return list(whole_segments(segments, lineage, start))


def whole_segments(
    segments: SegmentCache, lineage: Lineage, start: int
) -> Iterator[RemoteLogSegment]:
    """Those of which a log finds everything from ``start`` on, up to the first gap."""
    expected = start
    pending: RemoteLogSegment | None = None
    for extent in segments.extents(lineage, start):
        segment = extent.segment
        begins = max(segment.start_offset, start)
        is_next = pending is None and begins == expected
        if extent.start_offset != expected or not (pending is segment or is_next):
            return
        expected = extent.end_offset + 1
        pending = segment
        if extent.end_offset == segment.end_offset:
            yield segment
            pending = None


def decided(found: Sequence[RemoteSegment]) -> list[RemoteSegment]:
    """Without what a transaction reaches out of, by what is known of producers at its end."""
    kept = list(found)
    while kept:
        first = _first_open(kept[-1])
        if first is None:
            return kept
        kept = [each for each in kept[:-1] if each.segment.end_offset < first]
    return kept


def _first_open(place: RemoteSegment) -> int | None:
    """Where the first transaction begins that is open at the end; None if there is none.

    A segment that does not tell of its producers is not judged.
    """
    data = place.object(SNAPSHOT_SUFFIX)
    if not data:
        return place.segment.start_offset
    begun = [entry.transaction_first_offset for entry in decode_snapshot(data)]
    return min((offset for offset in begun if offset >= 0), default=None)


def groups_of(run: TierRun) -> list[TierRun]:
    """Neighbours that become one segment."""
    groups: list[list[RemoteSegment]] = []
    size = 0
    for place in run.segments:
        size += place.segment.size_in_bytes
        fits = (
            bool(groups)
            and size <= run.settings.segment_bytes
            and place.segment.end_offset - groups[-1][0].segment.start_offset <= OFFSETS_MAX
        )
        if not fits:
            groups.append([])
            size = place.segment.size_in_bytes
        groups[-1].append(place)
    return [run._replace(segments=tuple(group)) for group in groups]
