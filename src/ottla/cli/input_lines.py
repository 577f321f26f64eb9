"""Lines of standard input, as they come."""

import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Final

_CHUNK: Final = 1 << 16


def input_lines(before_waiting: Callable[[], None]) -> Iterator[bytes]:
    """Line by line; where the next is not there yet, ``before_waiting`` is called first.

    So what a person types, or a pipe brings now and then, is not held back until more has come.
    """
    descriptor = _descriptor()
    if descriptor is None:
        yield from sys.stdin.buffer
        return
    begun: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            before_waiting()
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for piece in others:
            yield b"".join([*begun, b"\n"])
            begun = [piece]
    if last := b"".join(begun):
        yield last


def _descriptor() -> int | None:
    """Of a terminal or a pipe; None when all of the input is there already."""
    try:
        descriptor = sys.stdin.fileno()
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):
        return None
    return None if is_file else descriptor
