"""What keeps the ISRs of the partitions that this broker leads in order over time.

Every half of ``replica.lag.time.max.ms`` each led partition is looked at for members of its ISR
that have fallen behind, as Kafka does; a member is out after one and a half times that at most.
"""

from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.replication.replicas import Replicas

_CHECKS_PER_LAG: Final = 2


class LeaderDriver:
    def __init__(self, replicas: Replicas, scheduler: Scheduler) -> None:
        self._replicas = replicas
        self._scheduler = scheduler
        self._check: Cancellable | None = None

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        delay = self._replicas.outside.lag_time_max / _CHECKS_PER_LAG
        self._check = self._scheduler.call_later(delay, self._check_all)

    def _check_all(self) -> None:
        for partition in list(self._replicas.partitions()):
            partition.maybe_shrink_isr()
        self._schedule()

    def stop(self) -> None:
        if self._check is not None:
            self._check.cancel()
