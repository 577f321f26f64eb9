"""The search for the leader: one is asked after another, and after each round there is a rest.

While there is no leader nobody knows one, and all that look for it ask the voters that are to elect
it. The first round is asked at once; the rests between the next grow from the retry back-off to
some times that. A node that enters another role, or has found a leader, begins anew.
"""

from typing import Final

from ottla.raft.roles import Role

REST_FACTOR_MAX: Final = 5
"""Longest rest between two rounds, in retry back-offs; voters are told of a leader by itself."""


class LeaderSearch:
    """When to ask, and who is next."""

    __slots__ = ("_asked", "_backoff", "_factor", "_next", "_role", "ready_at")

    def __init__(self, backoff: float) -> None:
        self._backoff = backoff
        self._role: Role | None = None
        self._next = 0
        self._asked = 0
        """In this round."""
        self._factor = 1
        self.ready_at = 0.0
        """When the next may be asked."""

    def begin(self, role: Role) -> None:
        """Go on if the search is that of ``role``; else begin one."""
        if self._role is not role:
            self._role = role
            self._asked = 0
            self._factor = 1
            self.ready_at = 0.0

    def end(self) -> None:
        self._role = None

    def order(self, destinations: list[int]) -> list[int]:
        """Which nodes to ask, the next one first."""
        first = self._next % len(destinations) if destinations else 0
        return destinations[first:] + destinations[:first]

    def asked(self, turn: int, count: int, now: float) -> None:
        """The one at ``turn`` in the order of ``count`` is asked now."""
        self._next += turn + 1
        self._asked += 1
        if self._asked >= count:
            self._asked = 0
            self.ready_at = now + self._factor * self._backoff
            self._factor = min(2 * self._factor, REST_FACTOR_MAX)
