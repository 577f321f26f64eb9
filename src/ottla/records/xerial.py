"""Snappy as Java's clients write it: the chunks of the xerial library.

    82 'SNAPPY' 00   version int32 = 1   compatible int32 = 1   { size int32   raw snappy } ...

Some clients send one raw snappy block without that header; readers take both.
"""

from struct import Struct
from typing import Final

import cramjam

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_HEADER_SIZE: Final = len(_HEADER)
_CHUNK_MAX: Final = 32 << 10
_SIZE: Final = Struct(">i")


def compress(data: bytes | bytearray | memoryview) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_HEADER]
    for start in range(0, len(view), _CHUNK_MAX):
        packed = bytes(cramjam.snappy.compress_raw(view[start : start + _CHUNK_MAX]))
        parts += (_SIZE.pack(len(packed)), packed)
    return b"".join(parts)


def decompressed_size(data: bytes) -> int:
    """What the chunks say they unpack to, which the unpacking then holds them to."""
    return sum(_declared_size(chunk) for chunk in _chunks(data))


def decompress(data: bytes) -> bytes:
    return b"".join(bytes(cramjam.snappy.decompress_raw(chunk)) for chunk in _chunks(data))


def _declared_size(chunk: bytes) -> int:
    size = shift = 0
    for byte in chunk[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
        shift += 7
    raise ValueError("a chunk has no size")


def _chunks(data: bytes) -> list[bytes]:
    if not data.startswith(_MAGIC):
        return [data]
    if len(data) < _HEADER_SIZE:
        raise ValueError("the header is cut")
    chunks: list[bytes] = []
    pos = _HEADER_SIZE
    while pos < len(data):
        if len(data) - pos < 4:
            raise ValueError("a chunk is cut")
        (size,) = _SIZE.unpack_from(data, pos)
        pos += 4
        if size < 0 or size > len(data) - pos:
            raise ValueError(f"a chunk of {size} bytes where {len(data) - pos} remain")
        chunks.append(data[pos : pos + size])
        pos += size
    return chunks
