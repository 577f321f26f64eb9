"""Verifies remote segments: every byte, every batch, every index entry, and that none is missing.

Of each segment: the manifest and what the metadata topic says agree; all objects have the checksums
of the manifest; what they hold is sound as ``ottla log verify`` has it, see
:mod:`ottla.inspection`. A task brings one segment at a time to its own disk. Nothing is changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.client.leader_epochs import leader_epochs
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL
from ottla.client.remote_segments import RemoteSegments
from ottla.common.errors import CorruptMessage, UnknownTopicOrPartition
from ottla.common.identifiers import uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.inspection.remote_segment import inspect_remote
from ottla.inspection.segment import Problem
from ottla.spark.source.broker_reads import BrokerReads
from ottla.spark.source.segment_files import RemoteSegment
from ottla.storage.checkpoints import CorruptCheckpoint, decode_epochs
from ottla.tiered.cache import SegmentCache
from ottla.tiered.layout import LEADER_EPOCHS_SUFFIX
from ottla.tiered.lineage import Lineage
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import SegmentState, TopicIdPartition
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
        facts = inspect_remote(place.store(), segment, verdict.segment_id)
    except (CorruptMessage, CorruptCheckpoint) as error:
        return verdict._replace(problem=str(error))
    except (RemoteStoreError, OSError) as error:
        return verdict._replace(problem=f"cannot be read: {str(error).partition(chr(10))[0]}")
    if facts.problems:
        return verdict._replace(problem=_told(facts.problems))
    return verdict._replace(batches=facts.batches or 0, records=facts.records or 0)


def _told(problems: list[Problem]) -> str:
    """The first of them, and how many more there are."""
    file, position, problem = problems[0]
    suffix = file.rpartition(".")[2]
    where = f".{suffix}" if position is None else f".{suffix} at position {position}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{where}: {problem}{more}"


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
    with kafka.consumer() as consumer:
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
