"""Batches that were kept for long: whether they still are what they were."""

import zlib
from struct import Struct
from typing import Final

from ottla.common.checksum import crc32c
from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    Buffer,
    batches,
    read_header,
)
from ottla.storage.file_records import offsets_of

UNBOUNDED: Final = 1 << 63
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD

_HEAD: Final = Struct(">qi5xI2xi")
"""Base offset, length, checksum and last offset delta."""
_LEGACY_BODY: Final = 16


def check_batches(
    data: Buffer, offset_min: int, offset_max: int, upper_bound_offset: int = UNBOUNDED
) -> tuple[int, int]:
    """Where the whole batches below the upper bound end, and the offset behind them.

    Each of them has the checksum that it claims, and offsets behind those of the one before it and
    within the bounds, or it is a CorruptMessage. A tight loop: logs of tiny batches have millions.
    """
    view = memoryview(data)
    unpack, total, at = _HEAD.unpack_from, len(view), 0
    while True:
        if total - at >= HEADER_SIZE and view[at + MAGIC_POSITION] == MAGIC:
            base_offset, length, crc, delta = unpack(view, at)
            end, last_offset = at + LOG_OVERHEAD + length, base_offset + delta
            if end > total:
                return at, offset_min
            is_sound = length >= LENGTH_MIN and crc == crc32c(view[at + ATTRIBUTES_POSITION : end])
        else:
            found = next(batches(view, at), None)
            if found is None:
                return at, offset_min
            # Old formats: a message bears the offset of its last record; where it begins, and
            # whether the offset is its own, is known when it is unpacked.
            end = at + found[1]
            header = read_header(view, at)
            is_sound = header.crc == zlib.crc32(view[at + _LEGACY_BODY : end])
            base_offset, last_offset = offsets_of(view[at:end], header)
            is_sound &= last_offset == header.last_offset
        if not is_sound:
            raise CorruptMessage(f"the batch at offset {base_offset} is damaged")
        if not offset_min <= base_offset <= last_offset <= offset_max:
            raise CorruptMessage(
                f"a batch with offsets {base_offset} to {last_offset} where {offset_min} to "
                f"{offset_max} are expected"
            )
        if last_offset >= upper_bound_offset:
            return at, offset_min
        at, offset_min = end, last_offset + 1
