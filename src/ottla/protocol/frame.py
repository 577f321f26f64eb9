"""Frames: a length of four bytes, then as many bytes. Bytes in, frames out; no I/O.

For readers of a stream in pieces, as clients are; the broker's connections parse in place in the
buffer that they receive into. Nothing is set aside for a frame before its bytes have come, so a
peer that announces much and sends little costs little.
"""

from struct import Struct
from typing import Final

from ottla.common.errors import ProtocolViolation

_SIZE: Final = Struct(">i")
PREFIX_SIZE: Final = 4


def frame(payload: bytes) -> bytes:
    """``payload`` with its length in front."""
    return _SIZE.pack(len(payload)) + payload


class FrameReader:
    """Cuts a stream into frames of at most ``size_max`` bytes each."""

    __slots__ = ("_buffer", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._buffer = bytearray()
        self._size_max = size_max

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame; not 0 at the end means cut short."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The frames, without their lengths, that are complete now."""
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        pos = 0
        while len(buffer) - pos >= PREFIX_SIZE:
            (size,) = _SIZE.unpack_from(buffer, pos)
            if not 0 <= size <= self._size_max:
                raise ProtocolViolation(f"frame of {size} bytes, at most {self._size_max} allowed")
            end = pos + PREFIX_SIZE + size
            if end > len(buffer):
                break
            frames.append(bytes(memoryview(buffer)[pos + PREFIX_SIZE : end]))
            pos = end
        if pos:
            del buffer[:pos]
        return frames
