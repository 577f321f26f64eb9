"""The four codecs of record batches, both ways, with a bound on what comes out.

A kilobyte can unpack to gigabytes. Nothing here allocates more than ``limit`` for the output: gzip
is unpacked as a stream; zstd, lz4 and snappy say in their frames how much they can become at most,
which is read and compared with the limit before any memory is taken.

What we compress must be read by Java's client: lz4 in frames of independent blocks, snappy in the
chunks of the xerial library.
"""

import zlib
from collections.abc import Callable
from mmap import mmap
from typing import Final

import cramjam

from ottla.common.errors import CorruptMessage, UnsupportedCompressionType
from ottla.records import lz4_frame, xerial, zstd_frame

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS: Final = {name: codec for codec, name in enumerate(NAMES)}

DECOMPRESSED_MAX: Final = 32 << 20
"""The bound where a caller has no better one."""
ACCEPTED_MAX: Final = 1 << 30
"""The bound for a batch that a broker has accepted: readers that refuse it never get past it."""

_GZIP_WRAPPED: Final = 31
_GZIP_LEVEL: Final = -1
_GZIP_MEMBER: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 20
"""Larger outputs get memory of their own, page by page as they grow, and give it back at once."""
_ZSTD_LEVEL: Final = 3


class DecompressedTooLarge(CorruptMessage):
    """The data is or may be sound, but would take more memory than we give it."""


def compress(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """``data`` as a codec's payload; ``level`` is the codec's own scale, None its default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        packer = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WRAPPED)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return xerial.compress(data)
    if codec == LZ4:
        return lz4_frame.compress(data, level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompressionType(f"unknown compression type id {codec}")


def decompress(codec: int, data: bytes, limit: int = DECOMPRESSED_MAX) -> bytes:
    """What was compressed into ``data``.

    CorruptMessage when it is no such payload, DecompressedTooLarge when it is longer than
    ``limit``, UnsupportedCompressionType for a codec that does not exist.
    """
    if codec == NONE:
        return data
    unpack = _DECOMPRESS.get(codec)
    if unpack is None:
        raise UnsupportedCompressionType(f"unknown compression type id {codec}")
    try:
        return unpack(data, limit)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise CorruptMessage(f"invalid {NAMES[codec]} payload: {error}") from None


def _decompress_gzip(data: bytes, limit: int) -> bytes:
    """Members may follow one another, as Java reads them; what is no member ends the stream.

    Piece by piece: asked for all at once, zlib takes several times the size of its output.
    """
    unpacker = zlib.decompressobj(_GZIP_WRAPPED)
    first = unpacker.decompress(data, min(_PIECE, limit + 1))
    if unpacker.eof and not unpacker.unused_data.startswith(_GZIP_MEMBER):
        if len(first) > limit:
            raise _too_large("gzip", limit)
        return first
    with mmap(-1, limit) as out:
        size = 0
        while True:
            unpacker = zlib.decompressobj(_GZIP_WRAPPED)
            while not unpacker.eof:
                part = unpacker.decompress(data, _PIECE)
                if not part and not unpacker.eof:
                    raise ValueError("the stream is cut")
                if size + len(part) > limit:
                    raise _too_large("gzip", limit)
                out[size : size + len(part)] = part
                size += len(part)
                data = unpacker.unconsumed_tail
            data = unpacker.unused_data
            if not data.startswith(_GZIP_MEMBER):
                return out[:size]


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    if xerial.decompressed_size(data) > limit:
        raise _too_large("snappy", limit)
    return xerial.decompress(data)


def _decompress_lz4(data: bytes, limit: int) -> bytes:
    end, bound = lz4_frame.measure(data)
    return _into("lz4", cramjam.lz4.decompress_into, data[:end], bound, limit)


def _decompress_zstd(data: bytes, limit: int) -> bytes:
    if not data:
        return data  # no frame at all is sound, unlike in the other formats
    bound = zstd_frame.decompressed_bound(data)
    return _into("zstd", cramjam.zstd.decompress_into, data, bound, limit)


def _into(
    name: str,
    decompress_into: Callable[[bytes, bytearray | mmap], int],
    data: bytes,
    bound: int,
    limit: int,
) -> bytes:
    """Unpack into a buffer of ``bound`` bytes, or of ``limit`` where the bound is a loose one."""
    room = min(bound, limit)
    try:
        if room <= _PIECE:
            buffer = bytearray(room)
            with memoryview(buffer) as view:
                return bytes(view[: decompress_into(data, buffer)])
        with mmap(-1, room) as out:
            return out[: decompress_into(data, out)]
    except cramjam.DecompressionError as error:
        if bound > limit and "write whole buffer" in str(error):
            raise _too_large(name, limit) from None
        raise


def _too_large(name: str, limit: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the {name} payload unpacks to more than {limit} bytes")


_DECOMPRESS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}
