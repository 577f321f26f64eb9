"""How the objects of a remote segment are called: plain, and readable without a broker.

::

    <topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.log
                                                                         .index
                                                                         .timeindex
                                                                         .txnindex (if not empty)
                                                                         .snapshot
                                                                         .leader-epoch-checkpoint
                                                                         .json

Ids are Kafka's base64url of 22 characters. ``.log`` and the indexes are Kafka's files byte for
byte. ``.json`` is the manifest, see :mod:`ottla.tiered.manifest`: it is written last and removed
first, so that a segment with a manifest is whole. A topic whose name is too long for a directory is
cut in the key; the manifest has all of it. docs/internals/remote-layout.md says it for readers.
"""

import re
from typing import Final, NamedTuple, Protocol

from ottla.common.identifiers import uuid_from_text, uuid_text
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.tiered.segments import TopicIdPartition

LEADER_EPOCHS_SUFFIX: Final = ".leader-epoch-checkpoint"
MANIFEST_SUFFIX: Final = ".json"
DATA_SUFFIXES: Final = (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    LEADER_EPOCHS_SUFFIX,
)
"""Of all objects but the manifest, in the order in which they are put."""
SUFFIXES: Final = (*DATA_SUFFIXES, MANIFEST_SUFFIX)

TOPIC_MAX: Final = 232
"""Characters of a topic's name in a key: with the id they fit the 255 of a file system."""
PARTITION_MAX: Final = (1 << 31) - 1
OFFSET_MAX: Final = (1 << 63) - 1

_ID: Final = r"[A-Za-z0-9_-]{22}"
_KEY: Final = re.compile(
    rf"([A-Za-z0-9._-]{{1,{TOPIC_MAX}}})-({_ID})/(0|[1-9][0-9]{{0,9}})/([0-9]{{20}})-({_ID})"
    rf"({'|'.join(map(re.escape, SUFFIXES))})"
)


class SegmentName(Protocol):
    """What a segment's objects are called by; ``RemoteLogSegment`` has it."""

    @property
    def partition(self) -> TopicIdPartition: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def segment_id(self) -> bytes: ...


class ObjectKey(NamedTuple):
    """A key, taken apart. The name of the topic is cut where it was longer than a key allows."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: bytes
    suffix: str


def partition_prefix(partition: TopicIdPartition) -> str:
    """What the keys of all segments of a partition begin with."""
    topic = partition.topic[:TOPIC_MAX]
    return f"{topic}-{uuid_text(partition.topic_id)}/{partition.partition}/"


def segment_prefix(segment: SegmentName) -> str:
    """What the keys of all objects of a segment begin with."""
    prefix = partition_prefix(segment.partition)
    return f"{prefix}{segment.start_offset:020d}-{uuid_text(segment.segment_id)}"


def object_key(segment: SegmentName, suffix: str) -> str:
    assert suffix in SUFFIXES, suffix
    return segment_prefix(segment) + suffix


def parse_key(key: str) -> ObjectKey | None:
    """What a key stands for; None for keys that are not made here."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    topic, topic_id, partition, offset, segment_id, suffix = match.groups()
    if int(partition) > PARTITION_MAX or int(offset) > OFFSET_MAX:
        return None
    where = TopicIdPartition(uuid_from_text(topic_id), topic, int(partition))
    parsed = ObjectKey(where, int(offset), uuid_from_text(segment_id), suffix)
    # The last character of an id has four bits that mean nothing: only one spelling is ours.
    return parsed if object_key(parsed, suffix) == key else None
