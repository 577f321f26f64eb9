"""LZ4 frames as Java's Kafka client reads them: one frame of independent blocks.

    magic 04224D18   FLG   BD   [content size 8]   [dictionary id 4]   HC
    { block size 4 (top bit: stored as is)   block   [block checksum 4] } ...   0 0 0 0
    [content checksum 4]

Sizes are little-endian; HC is a byte of xxHash32 over FLG and what follows it. "Dependent" blocks,
which libraries make by default, are what Kafka refuses.
"""

from struct import Struct
from typing import Final

import cramjam

_MAGIC: Final = b"\x04\x22\x4d\x18"
_STORED_BIT: Final = 1 << 31
STORED: Final = -1
_SIZE: Final = Struct("<I")

_VERSION_MASK: Final = 0xC0
_VERSION: Final = 0x40
_INDEPENDENT_BIT: Final = 0x20
_BLOCK_CHECKSUM_BIT: Final = 0x10
_CONTENT_SIZE_BIT: Final = 0x08
_CONTENT_CHECKSUM_BIT: Final = 0x04
_DICTIONARY_BIT: Final = 0x01

_DESCRIPTOR_START: Final = 4
_MASK: Final = 0xFFFFFFFF
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
"""Those of xxHash32."""

_DEFAULT_LEVEL: Final = 9
"""Kafka's name for "no particular level", which means the fast compressor."""
_FAST_LEVEL: Final = 0


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """A frame of independent blocks of 64 KiB, each with its checksum."""
    packer = cramjam.lz4.Compressor(
        level=_FAST_LEVEL if level is None or level == _DEFAULT_LEVEL else level,
        content_checksum=False,
        block_linked=False,
    )
    packer.compress(bytes(data))
    return bytes(packer.finish())


def blocks(data: bytes) -> list[tuple[int, int, int]]:
    """Position, size and bound of each block, STORED for one that is kept as it is."""
    found: list[tuple[int, int, int]] = []
    _walk(data, found)
    return found


def measure(data: bytes) -> tuple[int, int]:
    """Where the frame ends, and how many bytes it unpacks to at most; ValueError if it is none."""
    return _walk(data, None)


def _walk(data: bytes, found: list[tuple[int, int, int]] | None) -> tuple[int, int]:
    pos, flags, block_max = _read_descriptor(data)
    block_checksum = 4 if flags & _BLOCK_CHECKSUM_BIT else 0
    bound = 0
    while True:
        if len(data) - pos < 4:
            raise ValueError("the frame is cut")
        (size,) = _SIZE.unpack_from(data, pos)
        pos += 4
        if size == 0:
            break
        most = STORED
        if size & _STORED_BIT:
            size &= _STORED_BIT - 1
            bound += size
        else:
            most = min(block_max, size * 255)  # no sequence of lz4 grows a byte to more
            bound += most
        if size > block_max:
            raise ValueError(f"a block of {size} bytes is larger than the frame's {block_max}")
        if found is not None:
            found.append((pos, size, most))
        pos += size + block_checksum
    if flags & _CONTENT_CHECKSUM_BIT:
        pos += 4
    if pos > len(data):
        raise ValueError("the frame is cut")
    return pos, bound


def _read_descriptor(data: bytes) -> tuple[int, int, int]:
    """Position of the first block, the flags, the largest size of a block."""
    if len(data) < 7 or not data.startswith(_MAGIC):
        raise ValueError("not an lz4 frame")
    flags = data[4]
    if flags & _VERSION_MASK != _VERSION:
        raise ValueError(f"unsupported frame version {flags >> 6}")
    if not flags & _INDEPENDENT_BIT:
        raise ValueError("dependent blocks are not supported")
    if flags & _DICTIONARY_BIT:
        raise ValueError("dictionaries are not supported")
    block_size_id = data[5] >> 4 & 7
    if block_size_id < 4:
        raise ValueError(f"invalid block size {block_size_id}")
    pos = 15 if flags & _CONTENT_SIZE_BIT else 7
    return pos, flags, 1 << (8 + 2 * block_size_id)


def with_own_checksum(data: bytes) -> bytes:
    """The frame with the HC that its head should have, whatever it has."""
    end = _read_descriptor(data)[0] - 1
    checksum = _short_xxhash32(data[_DESCRIPTOR_START:end]) >> 8 & 0xFF
    return data[:end] + bytes([checksum]) + data[end + 1 :]


def _short_xxhash32(data: bytes) -> int:
    """Of fewer than 16 bytes; longer ones take more than this."""
    assert len(data) < 16
    first, second, third, fourth, fifth = _PRIMES
    value = fifth + len(data)
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        value = _rotated(value + _SIZE.unpack_from(data, at)[0] * third, 17) * fourth
    for byte in data[words:]:
        value = _rotated(value + byte * fifth, 11) * first
    value &= _MASK
    value = (value ^ value >> 15) * second & _MASK
    value = (value ^ value >> 13) * third & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
