"""Batches that were kept for long: whether they still are what they were."""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.records.batch import MAGIC, MAGIC_POSITION, Buffer, batches, crc_is_valid
from ottla.storage.file_records import BatchPlace

_OFFSET: Final = Struct(">q")
_DELTA: Final = Struct(">i")
_DELTA_POSITION: Final = 23
_LEGACY_CRC: Final = Struct(">I")
_LEGACY_CRC_POSITION: Final = 12
_LEGACY_BODY: Final = 16


def is_sound(data: Buffer, start: int, size: int) -> bool:
    """Whether the batch of ``size`` bytes at ``start`` has the checksum that it claims."""
    if data[start + MAGIC_POSITION] == MAGIC:
        return crc_is_valid(data, start, size)
    stored: int = _LEGACY_CRC.unpack_from(data, start + _LEGACY_CRC_POSITION)[0]
    return stored == zlib.crc32(memoryview(data)[start + _LEGACY_BODY : start + size])


def checked_batches(data: bytes, offset_min: int, offset_max: int) -> Iterator[BatchPlace]:
    """The whole batches that ``data`` begins with, each of them sound and behind the one before.

    CorruptMessage for the first that is not, or whose offsets lie outside.
    """
    for start, size in batches(data):
        base_offset: int = _OFFSET.unpack_from(data, start)[0]
        last_offset = base_offset
        # Before magic 2 a batch bore the offset of its last record.
        if data[start + MAGIC_POSITION] == MAGIC:
            last_offset += _DELTA.unpack_from(data, start + _DELTA_POSITION)[0]
        if not offset_min <= base_offset <= last_offset <= offset_max:
            raise CorruptMessage(
                f"a batch with offsets {base_offset} to {last_offset} where {offset_min} to "
                f"{offset_max} are expected"
            )
        if not is_sound(data, start, size):
            raise CorruptMessage(f"the batch at offset {base_offset} is damaged")
        yield BatchPlace(start, size, base_offset, last_offset)
        offset_min = last_offset + 1
