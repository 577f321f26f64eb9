"""What a leader knows of one follower: how far it is, when it was last level, who it is.

A follower's fetch offset says that it has everything before it. It was caught up when a fetch
reached the leader's log end of that moment; or, since records may come faster than fetches, when a
fetch reached the log end that the fetch before it had seen: then it was level at that earlier time.

Times are seconds of a clock that never jumps. Counterpart in Apache Kafka: ``Replica``.
"""

from typing import Final

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
"""A broker epoch that a fetch does not tell (before v15), or that no fetch has told yet."""
NEVER: Final = float("-inf")


class FollowerState:
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "has_fetched",
        "last_caught_up",
        "last_fetch",
        "leader_end_at_last_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_at_last_fetch = 0
        self.last_fetch = NEVER
        self.last_caught_up = NEVER
        self.broker_epoch = UNKNOWN_EPOCH
        self.has_fetched = False
        """Whether :attr:`broker_epoch` is of a fetch that this leader has seen."""

    def fetched(
        self, offset: int, log_start_offset: int, leader_end: int, broker_epoch: int, now: float
    ) -> None:
        """A fetch from ``offset`` came while the leader's log ended at ``leader_end``."""
        if offset >= leader_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.leader_end_at_last_fetch:
            self.last_caught_up = max(self.last_caught_up, self.last_fetch)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = max(leader_end, self.leader_end_at_last_fetch)
        self.last_fetch = now
        self.broker_epoch = broker_epoch
        self.has_fetched = True

    def new_epoch(
        self, leader_end: int, now: float, *, is_new_leader: bool, is_in_sync: bool
    ) -> None:
        """A leader epoch begins: a replica in sync has the whole lag time to show it."""
        self.last_caught_up = now if is_in_sync else NEVER
        if is_new_leader:
            self.log_end_offset = UNKNOWN_OFFSET
            self.log_start_offset = UNKNOWN_OFFSET
            self.leader_end_at_last_fetch = UNKNOWN_OFFSET
            self.last_fetch = NEVER
            self.broker_epoch = UNKNOWN_EPOCH
            self.has_fetched = False
        else:
            self.leader_end_at_last_fetch = leader_end
            self.last_fetch = now if is_in_sync else NEVER

    def is_caught_up(self, leader_end: int, now: float, lag_time_max: float) -> bool:
        return self.log_end_offset == leader_end or now - self.last_caught_up <= lag_time_max
