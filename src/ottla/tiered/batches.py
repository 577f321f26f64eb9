"""Whether a batch that was kept for long is still what it was."""

import zlib
from struct import Struct
from typing import Final

from ottla.records.batch import MAGIC, MAGIC_POSITION, Buffer, crc_is_valid

_LEGACY_CRC: Final = Struct(">I")
_LEGACY_CRC_POSITION: Final = 12
_LEGACY_BODY: Final = 16


def is_sound(data: Buffer, start: int = 0, size: int | None = None) -> bool:
    """Whether the batch of ``size`` bytes at ``start`` has the checksum that it claims."""
    if size is None:
        size = len(data) - start
    if data[start + MAGIC_POSITION] == MAGIC:
        return crc_is_valid(data, start, size)
    stored: int = _LEGACY_CRC.unpack_from(data, start + _LEGACY_CRC_POSITION)[0]
    return stored == zlib.crc32(memoryview(data)[start + _LEGACY_BODY : start + size])
