"""What an active controller does unasked: fences silent brokers, moves leaders back to preferred
replicas, elects unclean leaders where that is allowed, and writes a sign of life.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.common.environment import Cancellable, Scheduler
from ottla.config.broker import BrokerConfig
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.protocol.generated.metadata_records import NoOpRecord

ELECTIONS_MAX: Final = 1_000
"""Leaders that are moved at once."""
SESSION_CHECK_SECONDS: Final = 1.0

Write: TypeAlias = Callable[[Callable[[], ControllerResult[None]]], object]
_Task: TypeAlias = Callable[[], None]


class ControllerTasks:
    """Timers that run from ``start`` to ``stop``."""

    def __init__(
        self, config: BrokerConfig, machine: ControllerMachine, scheduler: Scheduler, write: Write
    ) -> None:
        self._config = config
        self._machine = machine
        self._scheduler = scheduler
        self._write = write
        self._timers: dict[_Task, Cancellable] = {}
        self._last_write = 0.0
        self._last_check = 0.0

    def start(self) -> None:
        self.stop()
        config = self._config
        self._last_write = self._last_check = self._scheduler.monotonic()
        self._every(SESSION_CHECK_SECONDS, self._expire_sessions)
        if config.metadata_max_idle_interval_ms > 0:
            self._every(config.metadata_max_idle_interval_ms / 1000, self._write_no_op)
        if config.auto_leader_rebalance_enable:
            self._every(config.leader_imbalance_check_interval_seconds, self._elect_preferred)
        self._every(config.unclean_leader_election_interval_ms / 1000, self._elect_unclean)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def wrote(self) -> None:
        """Something was written: a sign of life is not needed for a while."""
        self._last_write = self._scheduler.monotonic()

    def _every(self, seconds: float, task: _Task) -> None:
        def run() -> None:
            self._every(seconds, task)
            task()

        self._timers[task] = self._scheduler.call_later(seconds, run)

    def _expire_sessions(self) -> None:
        now = self._scheduler.monotonic()
        heartbeats = self._machine.state.heartbeats
        late = now - self._last_check - SESSION_CHECK_SECONDS
        self._last_check = now
        if late > SESSION_CHECK_SECONDS:
            heartbeats.postpone(late)  # this process stood still, and with it all that it hears
        for _ in heartbeats.expired(now):
            self._write(lambda: self._machine.brokers.expire_sessions(now))

    def _elect_preferred(self) -> None:
        partitions = self._machine.partitions
        self._write(
            lambda: ControllerResult(
                None, partitions.preferred_elections(ELECTIONS_MAX), atomic=False
            )
        )

    def _elect_unclean(self) -> None:
        partitions = self._machine.partitions
        self._write(lambda: ControllerResult(None, partitions.unclean_elections(), atomic=False))

    def _write_no_op(self) -> None:
        idle = self._scheduler.monotonic() - self._last_write
        if idle >= self._config.metadata_max_idle_interval_ms / 1000:
            self._write(lambda: ControllerResult(None, [NoOpRecord()]))
