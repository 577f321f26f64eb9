"""One place for the readiness of all sockets, so that a crowd of them is one turn.

An event loop calls back for each socket by itself, and each call would be a turn: with a write and
a send of its own. Here all sockets are in one epoll, whose own descriptor is all that the event
loop watches. When it is ready, one turn takes what all sockets that are ready have brought.

A turn is bounded, in sockets and in time: the first of a crowd waits for the last. What is left is
taken in the next turn, in its order, before anything newer; the event loop's other business comes
in between.
"""

import select
from collections.abc import Callable
from typing import Final, Protocol

from ottla.common.turn import Turn

SOCKETS_MAX: Final = 256
"""That are taken in one turn."""
TURN_SECONDS: Final = 0.002
"""After that no further socket is taken in a turn."""

HAS_EPOLL: Final = hasattr(select, "epoll")
"""Only Linux has it; elsewhere each socket is the event loop's own."""
_READING: Final = 0x001
_WRITING: Final = 0x004
"""EPOLLIN and EPOLLOUT; all others are errors, which the next read or write finds."""


class DescriptorWatching(Protocol):
    """What of an event loop is needed here."""

    def add_reader(self, fd: int, callback: Callable[..., object], /, *args: object) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


class Poller:
    """Calls back for the sockets of one node, many in one turn."""

    def __init__(
        self,
        loop: DescriptorWatching,
        turn: Turn,
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._now = now
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._masks: dict[int, int] = {}
        """What each descriptor in the epoll is watched for."""
        self._left: list[tuple[int, int]] = []
        """What was ready, and was not taken when its turn was over."""

    def watch_reading(self, fd: int, callback: Callable[[], None]) -> None:
        self._readers[fd] = callback
        self._watch(fd)

    def unwatch_reading(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._watch(fd)

    def watch_writing(self, fd: int, callback: Callable[[], None]) -> None:
        self._writers[fd] = callback
        self._watch(fd)

    def unwatch_writing(self, fd: int) -> None:
        if self._writers.pop(fd, None) is not None:
            self._watch(fd)

    def _watch(self, fd: int) -> None:
        mask = (_READING if fd in self._readers else 0) | (_WRITING if fd in self._writers else 0)
        masks = self._masks
        before = masks.get(fd, 0)
        if mask == before:
            return
        if not before:
            self._epoll.register(fd, mask)
            if not masks:
                self._loop.add_reader(self._epoll.fileno(), self._turn.run, self.take_ready)
            masks[fd] = mask
        elif mask:
            self._epoll.modify(fd, mask)
            masks[fd] = mask
        else:
            self._epoll.unregister(fd)
            del masks[fd]
            if not masks:
                self._loop.remove_reader(self._epoll.fileno())

    def take_ready(self) -> None:
        """Call back for what is ready; one turn."""
        ready = self._left or self._epoll.poll(0, SOCKETS_MAX)
        self._left = []
        if len(ready) > 1:
            self._turn.is_crowd = True
        readers, writers, now = self._readers, self._writers, self._now
        ends_at = now() + TURN_SECONDS
        for number, (fd, event) in enumerate(ready, 1):
            # One that was watched a moment ago may be gone, and its number be another's.
            if event & ~_WRITING:
                read = readers.get(fd)
                if read is not None:
                    read()
            if event & ~_READING:
                write = writers.get(fd)
                if write is not None:
                    write()
            if now() > ends_at:
                self._left = ready[number:]
                break
