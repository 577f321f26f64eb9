"""How much a Zstandard payload can unpack to, read from its frame and block headers (RFC 8878).

A frame may declare its content size, but need not, and may lie. Its blocks cannot: each says how
long it is and makes at most 128 KiB, or for a run of one byte exactly what it says. The bound is
what the blocks allow, so a payload of a kilobyte cannot ask for gigabytes.
"""

from typing import Final

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
_BLOCK_MAX: Final = 128 << 10
_DICTIONARY_SIZES: Final = (0, 1, 2, 4)
_CONTENT_SIZES: Final = (0, 2, 4, 8)
_RAW, _RUN, _COMPRESSED = 0, 1, 2


def decompressed_bound(data: bytes) -> int:
    """The most that all frames of ``data`` can unpack to; ValueError if a frame is cut."""
    bound = pos = 0
    while pos < len(data):
        magic = int.from_bytes(data[pos : pos + 4], "little")
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            pos += 8 + int.from_bytes(data[pos + 4 : pos + 8], "little")
            continue
        if magic != _MAGIC:
            raise ValueError("not a zstd frame")
        pos, size = _frame(data, pos + 4)
        bound += size
    if pos > len(data):
        raise ValueError("the frame is cut")
    return bound


def _frame(data: bytes, pos: int) -> tuple[int, int]:
    """Position behind the frame whose descriptor is at ``pos``, and its bound."""
    if pos >= len(data):
        raise ValueError("the frame is cut")
    descriptor = data[pos]
    single_segment = descriptor & 0x20
    content_size = _CONTENT_SIZES[descriptor >> 6] or (1 if single_segment else 0)
    pos += 1 + (0 if single_segment else 1) + _DICTIONARY_SIZES[descriptor & 3] + content_size
    bound = 0
    last = False
    while not last:
        if len(data) - pos < 3:
            raise ValueError("the frame is cut")
        header = int.from_bytes(data[pos : pos + 3], "little")
        pos += 3
        last = header & 1 == 1
        kind = header >> 1 & 3
        size = header >> 3
        if kind == _RAW:
            bound += size
            pos += size
        elif kind == _RUN:
            bound += size
            pos += 1
        elif kind == _COMPRESSED:
            bound += _BLOCK_MAX
            pos += size
        else:
            raise ValueError("a reserved kind of block")
    if descriptor & 0x04:
        pos += 4
    return pos, bound
