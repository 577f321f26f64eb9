"""How far long work is: one line on standard error, rewritten in place, gone when it ends.

It shows only where somebody looks: not when standard error is a file or a pipe, not with
``--quiet``, and not in the first half second, so that short work stays without a word.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FIRST_SECONDS: Final = 0.5
EVERY_SECONDS: Final = 0.1
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_ERASE: Final = "\r\x1b[K"


class Terminal(Protocol):
    """What is written to; ``sys.stderr`` is one, perhaps."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class Progress:
    """Use it in a ``with`` block and tell it of every piece of work by :meth:`update`."""

    def __init__(
        self,
        label: str,
        total: int,
        *,
        quiet: bool = False,
        stream: Terminal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``total`` in bytes, 0 when it is not known."""
        self.label = label
        self.total = total
        self.done = 0
        self._stream = stream or sys.stderr
        self._clock = clock
        self._shows = not quiet and self._stream.isatty()
        self._began = clock()
        self._next = self._began + FIRST_SECONDS
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def update(self, size: int) -> None:
        """So many more bytes are done."""
        self.done += size
        if not self._shows:
            return
        now = self._clock()
        if now >= self._next:
            self._next = now + EVERY_SECONDS
            self._shown = True
            self._stream.write(_ERASE + self.line(now - self._began))
            self._stream.flush()

    def clear(self) -> None:
        """Take the line away, for instance because something is to be said in its place."""
        if self._shown:
            self._shown = False
            self._stream.write(_ERASE)
            self._stream.flush()

    def line(self, seconds: float) -> str:
        """What is shown after so many seconds."""
        rate = self.done / seconds if seconds > 0 else 0.0
        parts = [self.label, size_text(self.done)]
        if self.total:
            share = min(self.done / self.total, 1.0)
            parts[1] += f" of {size_text(self.total)}"
            parts.append(f"{share:.0%}")
        parts.append(f"{size_text(int(rate))}/s")
        if self.total and rate > 0:
            parts.append(f"{time_text(max(self.total - self.done, 0) / rate)} left")
        return "  ".join(parts)


def size_text(size: int) -> str:
    """Bytes for people: ``1.5 MB``."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_UNITS[-1]}"


def time_text(seconds: float) -> str:
    """``0:07``, ``12:30``, ``3:05:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_options(command: F) -> F:
    """Give a command ``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="Do not show how far it is.")(command)
