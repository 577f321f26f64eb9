"""What keeps the partitions that this broker leads in order over time: ISRs, and their figures.

Every half of ``replica.lag.time.max.ms`` each led partition is looked at for members of its ISR
that have fallen behind, as Kafka does; a member is out after one and a half times that at most.
"""

from collections.abc import Callable
from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.replication.alter_partition import AlterPartitions, Controller
from ottla.replication.replicas import Replicas
from ottla.replication.surroundings import Registration

_CHECKS_PER_LAG: Final = 2


class LeaderDriver:
    def __init__(
        self,
        replicas: Replicas,
        controller: Controller,
        scheduler: Scheduler,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        registration: Callable[[int], Registration | None],
        replica_lag_time_max_ms: int,
    ) -> None:
        self._replicas = replicas
        self._scheduler = scheduler
        self._check: Cancellable | None = None
        self.alter_partitions = AlterPartitions(
            controller, scheduler, node_id=node_id, broker_epoch=broker_epoch
        )
        surroundings = replicas.surroundings
        surroundings.broker_epoch = broker_epoch
        surroundings.registration = registration
        surroundings.lag_time_max = replica_lag_time_max_ms / 1000
        surroundings.propose = self.alter_partitions.propose

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        delay = self._replicas.surroundings.lag_time_max / _CHECKS_PER_LAG
        self._check = self._scheduler.call_later(delay, self._check_all)

    def _check_all(self) -> None:
        for partition in list(self._replicas.partitions()):
            partition.maybe_shrink_isr()
        self._schedule()

    def stop(self) -> None:
        self.alter_partitions.stop()
        if self._check is not None:
            self._check.cancel()
