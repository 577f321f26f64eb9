"""The events that the core of a node is yet to hear of, one by one.

What the effects of an event have done to the log comes before all that has happened meanwhile: an
answer that waits is for the log as it was, and the core must know how it is now.
"""

from collections import deque
from typing import Final

from ottla.raft.events import RaftEvent

EVENTS_KEPT: Final = 1_000


class EventQueue:
    __slots__ = ("_follows", "_happened", "last")

    def __init__(self) -> None:
        self._happened: deque[RaftEvent] = deque()
        self._follows: deque[RaftEvent] = deque()
        self.last: deque[RaftEvent] = deque(maxlen=EVENTS_KEPT)
        """Those that were taken, for a person who has to find out what happened."""

    def __bool__(self) -> bool:
        return bool(self._happened or self._follows)

    def happened(self, event: RaftEvent) -> bool:
        """Take note of an event; whether it is the first that waits."""
        self._happened.append(event)
        return len(self._happened) == 1

    def follows(self, event: RaftEvent) -> None:
        """The same of what an effect has led to."""
        self._follows.append(event)

    def take(self) -> RaftEvent:
        event = (self._follows or self._happened).popleft()
        self.last.append(event)
        return event

    def clear(self) -> None:
        self._happened.clear()
        self._follows.clear()
