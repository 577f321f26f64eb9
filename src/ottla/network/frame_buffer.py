"""The buffer that answers are received into: frames are read where the socket has put them.

One buffer is used again and again, so that a stream of large answers, as a follower gets them,
costs no memory and no copy. A frame that does not fit yet makes the buffer grow with what has come,
by doubling, never with what was announced: a peer that announces much and sends little costs
little.
"""

from struct import Struct
from typing import Final

from ottla.common.errors import ProtocolViolation

_SIZE: Final = Struct(">i")
PREFIX_BYTES: Final = 4
FIRST_BYTES: Final = 64 << 10
KEPT_BYTES_MAX: Final = 16 << 20
"""A buffer that has become larger than this is given back with the frame that made it so."""


class FrameBuffer:
    """``free`` gives room, ``came`` says how much of it was used, ``frame`` takes what is whole."""

    __slots__ = ("_end", "_size_max", "_start", "_view")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._view = memoryview(bytearray(FIRST_BYTES))
        self._start = 0
        """Where the first frame begins that was not taken yet."""
        self._end = 0

    def free(self) -> memoryview:
        """Room for at least one byte; frames that were taken before are overwritten by it."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            if len(self._view) > KEPT_BYTES_MAX:
                self._view = memoryview(bytearray(FIRST_BYTES))
        elif start + PREFIX_BYTES + self._announced() > len(self._view):
            self._make_room(end - start)
        return self._view[self._end :]

    def _announced(self) -> int:
        """The size of the unfinished frame, as far as it is known."""
        if self._end - self._start < PREFIX_BYTES:
            return 0
        size: int = _SIZE.unpack_from(self._view, self._start)[0]
        if not 0 <= size <= self._size_max:
            raise ProtocolViolation(f"frame of {size} bytes, at most {self._size_max} allowed")
        return size

    def _make_room(self, held: int) -> None:
        """Let the unfinished frame begin in front, in a larger buffer if this one is full."""
        old = self._view
        if held == len(old):
            needed = PREFIX_BYTES + self._announced()
            self._view = memoryview(bytearray(min(2 * held, max(needed, held + 1))))
        if self._start or self._view is not old:
            self._view[:held] = bytes(old[self._start : self._end])
        self._start, self._end = 0, held

    def came(self, count: int) -> None:
        self._end += count

    def frame(self) -> memoryview | None:
        """The next whole frame, without its length; good until ``free`` is called."""
        start = self._start + PREFIX_BYTES
        if start > self._end:
            return None
        end = start + self._announced()
        if end > self._end:
            return None
        self._start = end
        return self._view[start:end]
