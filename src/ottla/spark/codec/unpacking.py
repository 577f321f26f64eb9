"""Compressed records unpacked one after another into memory that is used again.

``records.compression`` answers with bytes, which is right for one batch; here many follow one
another, and fresh memory for each, copied together at last, cost more than lz4 itself. Its limits
hold here too: nothing is taken before it is compared with what a payload can become at most.
"""

from typing import Final

import cramjam
import numpy as np
import zstandard

from ottla.common.errors import CorruptMessage
from ottla.records import lz4_frame, zstd_frame
from ottla.records.compression import LZ4, NAMES, ZSTD, DecompressedTooLarge, decompress
from ottla.spark.codec.kernels import Bytes

_ROOM_MIN: Final = 1 << 20


class Unpacked:
    """Grows by what is added; ``clear`` empties it and keeps the memory."""

    def __init__(self) -> None:
        self._bytes: Bytes = np.empty(0, np.uint8)
        self.size = 0
        self._zstd = zstandard.ZstdDecompressor()

    def clear(self) -> None:
        self.size = 0

    @property
    def array(self) -> Bytes:
        return self._bytes[: self.size]

    def add(self, data: bytes | memoryview) -> tuple[int, int]:
        """Take over bytes as they are; where they stand now."""
        start = self.size
        self._room(len(data))[:] = data
        self.size += len(data)
        return start, self.size

    def unpack(self, codec: int, payload: memoryview, limit: int) -> tuple[int, int]:
        """Add what ``payload`` unpacks to, at most ``limit`` bytes; where it stands now.

        CorruptMessage when it is no such payload. One that is cut may show only in its records.
        """
        start = self.size
        try:
            if codec == LZ4:
                self._unpack_lz4(payload, limit)
            elif codec == ZSTD:
                self._unpack_zstd(bytes(payload), limit)
            else:
                self.add(decompress(codec, bytes(payload), limit))
        except (cramjam.DecompressionError, zstandard.ZstdError, ValueError) as error:
            raise CorruptMessage(f"invalid {NAMES[codec]} payload: {error}") from None
        return start, self.size

    def _unpack_lz4(self, payload: memoryview, limit: int) -> None:
        """Block by block, each straight to its place: they are independent of each other."""
        left = limit
        for at, size, bound in lz4_frame.blocks(bytes(payload)):
            block = payload[at : at + size]
            if bound == lz4_frame.STORED:
                self.add(block)
                left -= size
            else:
                room = self._room(bound)
                count = cramjam.lz4.decompress_block_into(block, room, output_len=bound)
                self.size += count
                left -= count
            if left < 0:
                raise _too_large(limit)

    def _unpack_zstd(self, payload: bytes, limit: int) -> None:
        if not payload:
            return  # no frame at all is sound
        bound = zstd_frame.decompressed_bound(payload)
        reader = self._zstd.stream_reader(payload, read_across_frames=True)
        self.size += reader.readinto(self._room(min(bound, limit)))
        if bound > limit and reader.read(1):
            raise _too_large(limit)

    def _room(self, size: int) -> memoryview:
        """So many bytes behind what is there."""
        if len(self._bytes) - self.size < size:
            larger = np.empty(max(2 * len(self._bytes), self.size + size, _ROOM_MIN), np.uint8)
            larger[: self.size] = self._bytes[: self.size]
            self._bytes = larger
        return self._bytes.data[self.size : self.size + size]


def _too_large(limit: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the payload unpacks to more than {limit} bytes")
