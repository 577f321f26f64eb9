"""Fetch answers on the hot path: header bytes, and records as regions of the segment files.

The records of a partition stay in their file; the answer is a list of ``bytes | Region`` that the
connection sends with ``send`` and ``sendfile``. A test holds this to the generated codec.
"""

from collections.abc import Sequence
from struct import Struct

from ottla.common.buffers import Answer, Region

_INT32 = Struct(">i")
_INT16 = Struct(">h")
_INT64_PAIR = Struct(">qq")
_LEADER = Struct(">BBiiB")
_DIVERGING = Struct(">BBiqB")
_FLEXIBLE = 12
_TOPIC_IDS = 13

# index, error code, high watermark, last stable offset, log start offset
_PARTITION_V5 = Struct(">ihqqq")
_PARTITION_V4 = Struct(">ihqq")


APART_MIN = 16_384
"""Records in memory from this size on are sent as they are rather than copied."""


class FetchedPartition:
    """What one partition answers to a fetch."""

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log_start_offset",
        "next_offset",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        index: int,
        error_code: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: bytes | Region | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted: list[tuple[int, int]] | None = None
        """Producer id and first offset of each aborted transaction; None for read_uncommitted."""
        self.next_offset = -1
        """Behind the records, where some are; not told."""
        self.preferred_read_replica = -1
        self.current_leader: tuple[int, int] | None = None
        self.diverging_epoch: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        records = self.records
        if records is None:
            return 0
        return len(records) if isinstance(records, bytes) else records.size


class NodeEndpoint:
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int, host: str, port: int, rack: str | None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


def encode_fetch_response(
    correlation_id: int,
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
    *,
    error_code: int = 0,
    session_id: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> Answer:
    """The whole answer, length prefix and header included."""
    writer = _FlexibleWriter(version) if version >= _FLEXIBLE else _PlainWriter(version)
    writer.head += bytes(8)
    writer.begin(error_code, session_id, len(topics))
    for topic, partitions in topics:
        writer.topic(topic, len(partitions))
        for partition in partitions:
            writer.partition(partition)
        writer.end_topic()
    writer.end(endpoints)
    return writer.finish(correlation_id)


def fetch_response_size(
    version: int, topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]]
) -> int:
    """What counts as the size of an answer: its body, and a length in front of it."""
    answer = encode_fetch_response(0, version, topics)
    parts = [answer] if isinstance(answer, bytes) else answer
    size = sum(len(part) if isinstance(part, bytes) else part.size for part in parts)
    return size - (5 if version >= _FLEXIBLE else 4)


class _Writer:
    def __init__(self, version: int) -> None:
        self.version = version
        self.head = bytearray()
        self.segments: list[bytes | Region] = []
        self.size = 0

    def records(self, records: bytes | Region | None) -> None:
        if records is None:
            return
        size = len(records) if isinstance(records, bytes) else records.size
        if isinstance(records, bytes) and size < APART_MIN:
            self.head += records
        elif size:
            self.size += len(self.head) + size
            self.segments.append(bytes(self.head))
            self.segments.append(records)
            self.head = bytearray()

    def finish(self, correlation_id: int) -> Answer:
        self.size += len(self.head)
        prefix = _INT32.pack(self.size - 4) + _INT32.pack(correlation_id)
        if not self.segments:
            self.head[:8] = prefix
            return bytes(self.head)
        first = self.segments[0]
        assert isinstance(first, bytes)
        self.segments[0] = prefix + first[8:]
        if self.head:
            self.segments.append(bytes(self.head))
        return self.segments


class _FlexibleWriter(_Writer):
    def begin(self, error_code: int, session_id: int, topics: int) -> None:
        head = self.head
        head += b"\x00\x00\x00\x00\x00"
        head += _INT16.pack(error_code)
        head += _INT32.pack(session_id)
        self._unsigned_varint(topics + 1)

    def _unsigned_varint(self, value: int) -> None:
        head = self.head
        while value > 0x7F:
            head.append(value & 0x7F | 0x80)
            value >>= 7
        head.append(value)

    def topic(self, topic: str | bytes, partitions: int) -> None:
        if isinstance(topic, bytes):
            self.head += topic
        else:
            name = topic.encode()
            self._unsigned_varint(len(name) + 1)
            self.head += name
        self._unsigned_varint(partitions + 1)

    def partition(self, partition: FetchedPartition) -> None:
        head = self.head
        head += _PARTITION_V5.pack(
            partition.index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        )
        aborted = partition.aborted
        if aborted is None:
            head.append(0)
        else:
            self._unsigned_varint(len(aborted) + 1)
            for producer_id, first_offset in aborted:
                head += _INT64_PAIR.pack(producer_id, first_offset)
                head.append(0)
        head += _INT32.pack(partition.preferred_read_replica)
        records = partition.records
        self._unsigned_varint(0 if records is None else partition.size + 1)
        self.records(records)
        self._tags(partition)

    def _tags(self, partition: FetchedPartition) -> None:
        head = self.head
        diverging, leader = partition.diverging_epoch, partition.current_leader
        head.append((diverging is not None) + (leader is not None))
        if diverging is not None:
            head += _DIVERGING.pack(0, 13, diverging[0], diverging[1], 0)
        if leader is not None:
            head += _LEADER.pack(1, 9, leader[0], leader[1], 0)

    def end_topic(self) -> None:
        self.head.append(0)

    def end(self, endpoints: Sequence[NodeEndpoint]) -> None:
        if not endpoints or self.version < 16:
            self.head.append(0)
            return
        outer, self.head = self.head, bytearray()
        self._unsigned_varint(len(endpoints) + 1)
        for endpoint in endpoints:
            self.head += _INT32.pack(endpoint.node_id)
            host = endpoint.host.encode()
            self._unsigned_varint(len(host) + 1)
            self.head += host
            self.head += _INT32.pack(endpoint.port)
            rack = endpoint.rack
            self._unsigned_varint(0 if rack is None else len(rack.encode()) + 1)
            self.head += b"" if rack is None else rack.encode()
            self.head.append(0)
        value, self.head = self.head, outer
        self.head += b"\x01\x00"
        self._unsigned_varint(len(value))
        self.head += value


class _PlainWriter(_Writer):
    def begin(self, error_code: int, session_id: int, topics: int) -> None:
        head = self.head
        head += b"\x00\x00\x00\x00"
        if self.version >= 7:
            head += _INT16.pack(error_code)
            head += _INT32.pack(session_id)
        head += _INT32.pack(topics)

    def topic(self, topic: str | bytes, partitions: int) -> None:
        assert isinstance(topic, str)
        name = topic.encode()
        self.head += _INT16.pack(len(name))
        self.head += name
        self.head += _INT32.pack(partitions)

    def partition(self, partition: FetchedPartition) -> None:
        head = self.head
        fixed = (
            partition.index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
        )
        if self.version >= 5:
            head += _PARTITION_V5.pack(*fixed, partition.log_start_offset)
        else:
            head += _PARTITION_V4.pack(*fixed)
        aborted = partition.aborted
        head += _INT32.pack(-1 if aborted is None else len(aborted))
        for producer_id, first_offset in aborted or ():
            head += _INT64_PAIR.pack(producer_id, first_offset)
        if self.version >= 11:
            head += _INT32.pack(partition.preferred_read_replica)
        records = partition.records
        head += _INT32.pack(-1 if records is None else partition.size)
        self.records(records)

    def end_topic(self) -> None:
        pass

    def end(self, endpoints: Sequence[NodeEndpoint]) -> None:
        pass
