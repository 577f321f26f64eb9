"""Which brokers are alive: sessions by heartbeat, kept by the active controller only.

Nothing here is in the log: a new controller gives every unfenced broker one whole session to say
that it is there. Of the node that was the controller before it has heard by the quorum: the session
of that broker has begun with the last answer, and has half of its time left at least.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class BrokerSession:
    epoch: int
    last_heartbeat: float
    metadata_offset: int = -1
    """How far the broker has read the metadata log."""
    controlled_shutdown_offset: int = -1
    """It may stop when all others have read up to here; -1 when it is not stopping."""


class Heartbeats:
    """Sessions by broker id."""

    __slots__ = ("_sessions", "_timeout")

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout = session_timeout_ms / 1000
        self._sessions: dict[int, BrokerSession] = {}

    def clear(self) -> None:
        self._sessions.clear()

    def touch(self, broker_id: int, epoch: int, now: float) -> BrokerSession:
        """The broker was heard of; a session of an earlier epoch is forgotten."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = BrokerSession(epoch, now)
        session.last_heartbeat = now
        return session

    def begin(self, broker_id: int, epoch: int, now: float, heard: float | None) -> None:
        """A controller begins, and has ``heard`` of the broker before, in another way."""
        since = now if heard is None else max(heard, now - self._timeout / 2)
        self.touch(broker_id, epoch, since)

    def session(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def remove(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def postpone(self, seconds: float) -> None:
        """Nobody could be heard for so long, by no fault of theirs: nobody is late for it."""
        for session in self._sessions.values():
            session.last_heartbeat += seconds

    def has_valid_session(self, broker_id: int, epoch: int, now: float) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and not self._expired(session, now)

    def _expired(self, session: BrokerSession, now: float) -> bool:
        return now - session.last_heartbeat >= self._timeout

    def next_expiry(self, now: float) -> float:
        """When the first session ends that has not; very late when there is none."""
        return min(
            (
                session.last_heartbeat + self._timeout
                for session in self._sessions.values()
                if not self._expired(session, now)
            ),
            default=math.inf,
        )

    def expired(self, now: float) -> list[int]:
        """Brokers whose sessions ended, in order of their ids."""
        return sorted(
            broker_id
            for broker_id, session in self._sessions.items()
            if self._expired(session, now)
        )

    def lowest_offset(self, is_active: Callable[[int], bool]) -> int:
        """How far every active broker has read; very far when there is none."""
        return min(
            (
                session.metadata_offset
                for broker_id, session in self._sessions.items()
                if is_active(broker_id)
            ),
            default=1 << 62,
        )
