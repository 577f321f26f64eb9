"""Fetch answers as a follower reads them: positions in the frame, no copy of the records.

The counterpart of ``fetch_response``, for versions with topic ids (13 and above), which brokers
speak among themselves, and readers that take whole batches. What neither has a use for (preferred
replicas, current leaders, endpoints) is passed over. A test holds this to the generated codec.

Rule: every length is compared with the frame's end before anything is read or made of it. Whatever
is wrong shows as ProtocolViolation.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import Final

from ottla.common.errors import ProtocolViolation
from ottla.protocol.produce_request import read_unsigned_varint, skip_tagged_fields

TOPIC_IDS: Final = 13
_HEAD: Final = Struct(">ihi")
_PARTITION: Final = Struct(">ihqqq")
_EPOCH_END: Final = Struct(">iq")
_ABORTED: Final = Struct(">qq")
_DIVERGING_EPOCH: Final = 0


class FetchedRecords:
    """What a leader says of one partition."""

    __slots__ = (
        "aborted",
        "diverging_end",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "records",
        "topic_id",
    )

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        error_code: int,
        high_watermark: int,
        log_start_offset: int,
        records: memoryview,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.records = records
        """A part of the frame."""
        self.diverging_epoch = -1
        """The largest epoch of the leader that is not above ours, if the logs diverge; or -1."""
        self.diverging_end = -1
        self.last_stable_offset = -1
        self.aborted: list[tuple[int, int]] = []
        """Producer id and first offset of each aborted transaction in the records."""


class FetchAnswer:
    __slots__ = ("error_code", "partitions", "session_id", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int,
        error_code: int,
        session_id: int,
        partitions: list[FetchedRecords],
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.partitions = partitions


def read_fetch_answer(frame: memoryview, pos: int, version: int) -> FetchAnswer:
    """The body at ``pos``, to the end of the frame."""
    if version < TOPIC_IDS:
        raise ProtocolViolation(f"a fetch answer of version {version} has no topic ids")
    try:
        return _read(frame, pos)
    except (IndexError, StructError):
        raise ProtocolViolation("a fetch answer that ends too soon") from None


def _read(frame: memoryview, pos: int) -> FetchAnswer:
    limit = len(frame)
    throttle_time_ms, error_code, session_id = _HEAD.unpack_from(frame, pos)
    count, pos = _count(frame, pos + _HEAD.size)
    partitions: list[FetchedRecords] = []
    for _ in range(count):
        if limit - pos < 16:
            raise ProtocolViolation("a topic id reaches past the end of the frame")
        topic_id = bytes(frame[pos : pos + 16])
        inner, pos = _count(frame, pos + 16)
        for _ in range(inner):
            index, error, high_watermark, stable, log_start = _PARTITION.unpack_from(frame, pos)
            size, pos = read_unsigned_varint(frame, pos + _PARTITION.size)
            aborted: list[tuple[int, int]] = []
            if size > 1:
                pos = _read_aborted(frame, pos, size - 1, aborted)
            size, pos = read_unsigned_varint(frame, pos + 4)
            end = pos + size - 1 if size else pos
            if end > limit:
                raise ProtocolViolation("records reach past the end of the frame")
            fetched = FetchedRecords(
                topic_id, index, error, high_watermark, log_start, frame[pos:end]
            )
            fetched.last_stable_offset = stable
            fetched.aborted = aborted
            partitions.append(fetched)
            pos = end
            if frame[pos] == 0:
                pos += 1
            else:
                pos = _read_tags(frame, pos, fetched)
        pos = skip_tagged_fields(frame, pos)
    pos = skip_tagged_fields(frame, pos)
    if pos != limit:
        raise ProtocolViolation(f"a fetch answer with {limit - pos} bytes too many")
    return FetchAnswer(throttle_time_ms, error_code, session_id, partitions)


def _count(frame: memoryview, pos: int) -> tuple[int, int]:
    """How many elements the array has whose length stands at ``pos``; one has a byte at least."""
    count, pos = read_unsigned_varint(frame, pos)
    if count == 0 or count - 1 > len(frame) - pos:
        raise ProtocolViolation(f"an array of {count - 1} elements in {len(frame) - pos} bytes")
    return count - 1, pos


def _read_aborted(frame: memoryview, pos: int, count: int, into: list[tuple[int, int]]) -> int:
    if count > len(frame) - pos:
        raise ProtocolViolation(f"an array of {count} elements in {len(frame) - pos} bytes")
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(frame, pos)
        into.append((producer_id, first_offset))
        pos = skip_tagged_fields(frame, pos + _ABORTED.size)
    return pos


def _read_tags(frame: memoryview, pos: int, into: FetchedRecords) -> int:
    count, pos = read_unsigned_varint(frame, pos)
    for _ in range(count):
        tag, pos = read_unsigned_varint(frame, pos)
        size, pos = read_unsigned_varint(frame, pos)
        end = pos + size
        if end > len(frame):
            raise ProtocolViolation("a tagged field reaches past the end of the frame")
        if tag == _DIVERGING_EPOCH:
            if size <= _EPOCH_END.size:
                raise ProtocolViolation(f"a diverging epoch of {size} bytes")
            into.diverging_epoch, into.diverging_end = _EPOCH_END.unpack_from(frame, pos)
            if skip_tagged_fields(frame[:end], pos + _EPOCH_END.size) != end:
                raise ProtocolViolation("a diverging epoch that is longer than it should be")
        pos = end
    return pos
