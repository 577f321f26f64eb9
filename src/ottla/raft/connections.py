"""Whom a node may send a request: one at a time to each, and not too soon after a failure.

A connection waits for at most one answer, up to the request timeout. After a failure it rests for
the retry back-off. Whatever comes for a request that is no longer waited for is not expected.
"""

from typing import Final

from ottla.raft.effects import RaftRequest

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers count down from here."""


class _Connection:
    __slots__ = ("ready_at", "request")

    def __init__(self) -> None:
        self.request: RaftRequest | None = None
        self.ready_at = 0.0
        """When the request times out, or the rest after a failure is over."""


class Connections:
    """The connections of a node, by destination."""

    __slots__ = ("_backoff", "_connections", "_timeout", "number")

    def __init__(self, timeout: float, backoff: float) -> None:
        self._timeout = timeout
        self._backoff = backoff
        self._connections: dict[int, _Connection] = {}
        self.number = 0
        """Of the last request."""

    def ready_at(self, destination: int) -> float:
        """When a request may be sent."""
        connection = self._connections.get(destination)
        return 0.0 if connection is None else connection.ready_at

    def is_waiting(self, destination: int, now: float) -> bool:
        """Whether an answer may still come."""
        connection = self._connections.get(destination)
        return (
            connection is not None and connection.request is not None and now < connection.ready_at
        )

    def has_failed(self, destination: int, now: float) -> bool:
        """Whether it rests after a failure, or has not answered in time."""
        connection = self._connections.get(destination)
        if connection is None:
            return False
        if connection.request is None:
            return now < connection.ready_at
        return now >= connection.ready_at

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def sent(self, request: RaftRequest, now: float) -> None:
        connection = self._connections.setdefault(request.destination, _Connection())
        connection.request = request
        connection.ready_at = now + self._timeout

    def settled(self, request: RaftRequest, now: float, *, failed: bool = False) -> bool:
        """Note an answer or a failure; whether it was waited for."""
        connection = self._connections.get(request.destination)
        if connection is None or connection.request != request:
            return False
        connection.request = None
        connection.ready_at = now + self._backoff if failed else 0.0
        return True

    def rest(self, destination: int, now: float) -> None:
        """The answer came but was of no use: do not ask again at once."""
        connection = self._connections.setdefault(destination, _Connection())
        connection.request = None
        connection.ready_at = now + self._backoff

    def expire(self, destination: int, now: float) -> None:
        """Give up a request that was not answered in time."""
        connection = self._connections.get(destination)
        if connection is not None and connection.request is not None and now >= connection.ready_at:
            self.rest(destination, now)

    def reset(self) -> None:
        """Expect nothing any more; in a new role everybody may be asked at once."""
        self._connections.clear()
