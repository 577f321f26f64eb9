"""What happened, as a hash of all of it and the last lines of it: equal runs have equal traces."""

from collections import deque
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final
from zlib import crc32

from ottla.simulation.scheduler import SimulatedScheduler
from ottla.simulation.sockets import SimulatedSocket

LINES_KEPT: Final = 200
_GATHERED_BYTES: Final = 4096
"""Deliveries are hashed many at a time."""
_DELIVERY: Final = Struct(">dQI?").pack


class Trace:
    def __init__(self, scheduler: SimulatedScheduler) -> None:
        self._scheduler = scheduler
        self._hash = sha256()
        self._gathered = bytearray()
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        """The last of them."""
        self.on_line: Callable[[str], None] = lambda _line: None
        self.tells_deliveries = False
        """Whether each delivery becomes a line too; it counts in the hash in any case."""

    def note(self, what: str) -> None:
        line = f"{self._scheduler.now:.6f} {self._scheduler.steps} {what}"
        self._gathered += line.encode() + b"\n"
        self.lines.append(line)
        self.on_line(line)

    def delivered(self, source: SimulatedSocket, data: bytes | None) -> None:
        checksum = crc32(data or b"", self._scheduler.steps)
        gathered = self._gathered
        gathered += _DELIVERY(self._scheduler.now, source.number, checksum, data is None)
        if len(gathered) > _GATHERED_BYTES:
            self._hash.update(gathered)
            gathered.clear()
        if self.tells_deliveries:
            size = "reset" if data is None else f"{len(data)} bytes" if data else "end"
            host, port = source.getsockname()
            target = ":".join(map(str, source.getpeername()))
            self.on_line(f"{self._scheduler.now:.6f} {host}:{port} > {target} {size}")

    @property
    def digest(self) -> str:
        self._hash.update(self._gathered)
        self._gathered.clear()
        return self._hash.hexdigest()
