"""An answer as segments: bytes in memory, and regions of files that never enter it."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias


class ReadableFile(Protocol):
    def fileno(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes: ...


class Region(Protocol):
    """``size`` bytes of ``file`` from ``position`` on; what ``sendfile`` takes."""

    @property
    def file(self) -> ReadableFile: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...


Segments: TypeAlias = Sequence[bytes | Region]
Answer: TypeAlias = bytes | Segments
"""What goes back over a connection, length prefix included."""
