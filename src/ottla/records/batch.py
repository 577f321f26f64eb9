"""The header of a record batch: 61 bytes that stand before its records.

Messages of the formats before it, magic 0 and 1, are batches too: :func:`read_header` tells of them
in the same words; see ``legacy``.

Everything a log needs to know of a batch is here, so that records are never touched on the way
through a broker. ``base_offset`` and ``partition_leader_epoch`` lie outside the checksum: the
leader patches them in place. A change to anything else needs :func:`seal`.

    0 baseOffset q   8 batchLength i (counted from 12)   12 partitionLeaderEpoch i   16 magic b
    17 crc I (CRC-32C of 21..end)   21 attributes h   23 lastOffsetDelta i   27 baseTimestamp q
    35 maxTimestamp q   43 producerId q   51 producerEpoch h   53 baseSequence i   57 count i
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from ottla.common.checksum import crc32c
from ottla.common.errors import CorruptMessage

Buffer = bytes | bytearray | memoryview
MutableBuffer = bytearray | memoryview

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length, which every batch of every magic begins with."""
MAGIC: Final = 2
LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
LEGACY_LENGTH_MIN: Final = 14
"""The shortest message of magic 0, counted as ``batchLength`` counts."""
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
"""The same of magic 2."""
LEGACY_ATTRIBUTES_MASK: Final = 0x0F
"""Codec and timestamp type: a message of magic 0 or 1 can say no more."""
LEGACY_HEADER_SIZE: Final = 26
"""The header of magic 1, before key and value; no message of magic 0 is shorter."""

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

_SIZE: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_OFFSET: Final = Struct(">q")
_LENGTH_TO_MAGIC: Final = Struct(">iib")
_LEGACY_HEADER: Final = Struct(">qiIbbq")
_LEGACY_CRC_FROM: Final = 16


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def wraps(self) -> bool:
        """Whether it is a message of magic 0 or 1 around others: it bears the offset of the last.

        That of the first takes unpacking; see ``legacy.wrapped_offsets``.
        """
        return self.magic < MAGIC and self.attributes & CODEC_MASK != 0

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go; the base timestamp stands for it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        return last_sequence(self.base_sequence, self.last_offset_delta)


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Sequences are 31 bits and go on at 0."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, pos: int = 0) -> BatchHeader:
    """The header at ``pos``, of any magic; CorruptMessage when not even a header fits there."""
    room = len(buffer) - pos
    if room >= LEGACY_HEADER_SIZE and buffer[pos + MAGIC_POSITION] < MAGIC:
        return _legacy_header(buffer, pos)
    if room < HEADER_SIZE:
        raise CorruptMessage(f"{room} bytes are fewer than a batch header")
    return BatchHeader._make(HEADER.unpack_from(buffer, pos))


def _legacy_header(buffer: Buffer, pos: int) -> BatchHeader:
    """A message as a batch: what its format cannot say is unknown.

    One that wraps others bears the offset of the last, which is all that its header tells of them;
    that of the first takes unpacking.
    """
    offset, length, crc, magic, attributes, timestamp = _LEGACY_HEADER.unpack_from(buffer, pos)
    attributes &= LEGACY_ATTRIBUTES_MASK
    if magic == 0:
        attributes, timestamp = attributes & CODEC_MASK, NO_TIMESTAMP
    return BatchHeader(
        base_offset=offset,
        length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )


def has_length(length: int, magic: int) -> bool:
    """Whether a batch of that magic can have that length, and the magic exists."""
    if magic == MAGIC:
        return length >= LENGTH_MIN
    return 0 <= magic < MAGIC and length >= LEGACY_LENGTH_MIN + magic * _TIMESTAMP.size


def batches(buffer: Buffer, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Position and size of each whole batch; a cut one at the end is left out.

    CorruptMessage for a length or magic that no batch can have.
    """
    if end is None:
        end = len(buffer)
    while end - start >= MAGIC_POSITION + 1:
        length, _, magic = _LENGTH_TO_MAGIC.unpack_from(buffer, start + LENGTH_POSITION)
        if length < LEGACY_LENGTH_MIN:
            raise CorruptMessage(f"batch length {length} is less than that of any message")
        if not 0 <= magic <= MAGIC:
            raise CorruptMessage(f"invalid magic {magic}")
        size = LOG_OVERHEAD + length
        if size > end - start:
            return
        if not has_length(length, magic):
            raise CorruptMessage(f"a batch of {size} bytes is shorter than its header")
        yield start, size
        start += size


def set_base_offset_and_epoch(
    buffer: MutableBuffer, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """What a leader gives a batch; the checksum does not cover it."""
    _OFFSET.pack_into(buffer, pos, base_offset)
    _SIZE.pack_into(buffer, pos + LEADER_EPOCH_POSITION, leader_epoch)


def set_max_timestamp(
    buffer: MutableBuffer, pos: int, size: int, timestamp_type: int, max_timestamp: int
) -> None:
    """Rewrite timestamp type and maximum in place, and the checksum over them."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, pos + ATTRIBUTES_POSITION)
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    else:
        attributes &= ~TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(buffer, pos + ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, pos + MAX_TIMESTAMP_POSITION, max_timestamp)
    seal(buffer, pos, size)


def seal(buffer: MutableBuffer, pos: int, size: int) -> None:
    """Write the checksum that the batch at ``pos`` must have."""
    crc = crc32c(memoryview(buffer)[pos + ATTRIBUTES_POSITION : pos + size])
    _CRC.pack_into(buffer, pos + CRC_POSITION, crc)


def crc_is_valid(buffer: Buffer, pos: int, size: int) -> bool:
    """Of a batch of magic 2."""
    if size < HEADER_SIZE:
        return False
    stored: int = _CRC.unpack_from(buffer, pos + CRC_POSITION)[0]
    computed: int = crc32c(memoryview(buffer)[pos + ATTRIBUTES_POSITION : pos + size])
    return computed == stored


def is_intact(buffer: Buffer, pos: int, size: int) -> bool:
    """Whether the batch of ``size`` bytes, of any magic, has the checksum that it claims."""
    if size < LEGACY_HEADER_SIZE:
        return False
    if buffer[pos + MAGIC_POSITION] >= MAGIC:
        return crc_is_valid(buffer, pos, size)
    stored: int = _CRC.unpack_from(buffer, pos + LOG_OVERHEAD)[0]
    return crc32(memoryview(buffer)[pos + _LEGACY_CRC_FROM : pos + size]) == stored
