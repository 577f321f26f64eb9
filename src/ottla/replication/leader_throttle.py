"""How fast a leader serves replicas that are throttled and not in sync (KIP-73).

A replica that is in sync is never held back, or the throttle would take it out of the ISR. One that
is gets an answer without records, and asks again.
"""

from collections.abc import Callable

from ottla.common.clock import Clock
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota


class LeaderThrottle:
    def __init__(
        self, quota: ReplicationQuota, is_throttled: Callable[[Partition], bool], clock: Clock
    ) -> None:
        """``is_throttled`` is what ``leader.replication.throttled.replicas`` says."""
        self.quota = quota
        self._is_throttled = is_throttled
        self._clock = clock

    def holds_back(self, partition: Partition, broker_id: int) -> bool:
        """Whether ``broker_id`` gets nothing of ``partition`` for now."""
        return (
            broker_id not in partition.isr
            and self._is_throttled(partition)
            and self.quota.is_exceeded(self._clock.monotonic())
        )

    def served(self, partition: Partition, size: int) -> None:
        """Count what a follower gets, if its partition is throttled."""
        if self._is_throttled(partition):
            self.quota.record(size, self._clock.monotonic())
