"""What an active controller does unasked: fences silent brokers, moves leaders back to preferred
replicas, elects unclean leaders where that is allowed, and writes a sign of life.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.common.environment import Cancellable, Scheduler
from ottla.config.broker import BrokerConfig
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.metadata.records import MetadataRecord
from ottla.observability.logging import logger
from ottla.protocol.generated.metadata_records import NoOpRecord

log = logger(__name__)

ELECTIONS_MAX: Final = 1_000
"""Leaders that are moved at once."""
SESSION_CHECK_SECONDS: Final = 1.0
SESSION_SLACK_SECONDS: Final = 0.01
"""Sessions that end so soon after each other may be looked at together."""

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
        self._more: dict[_Task, Cancellable] = {}
        """Tasks that have not come to their end, and go on at once."""
        self._last_write = 0.0
        self._look_due = 0.0

    def start(self) -> None:
        self.stop()
        config = self._config
        self._last_write = self._scheduler.monotonic()
        self._look_at_sessions_in(SESSION_CHECK_SECONDS)
        if config.metadata_max_idle_interval_ms > 0:
            self._every(config.metadata_max_idle_interval_ms / 1000, self._write_no_op)
        if config.auto_leader_rebalance_enable:
            self._every(config.leader_imbalance_check_interval_seconds, self._elect_preferred)
        self._every(config.unclean_leader_election_interval_ms / 1000, self._elect_unclean)

    def stop(self) -> None:
        for timers in (self._timers, self._more):
            for timer in timers.values():
                timer.cancel()
            timers.clear()

    def wrote(self) -> None:
        """Something was written: a sign of life is not needed for a while."""
        self._last_write = self._scheduler.monotonic()

    def _every(self, seconds: float, task: _Task) -> None:
        def run() -> None:
            self._every(seconds, task)
            task()

        self._timers[task] = self._scheduler.call_later(seconds, run)

    def _look_at_sessions_in(self, seconds: float) -> None:
        self._look_due = self._scheduler.monotonic() + seconds
        timer = self._scheduler.call_later(seconds, self._expire_sessions)
        self._timers[self._expire_sessions] = timer

    def _expire_sessions(self) -> None:
        """When the first one ends, and so often that a process which stood still finds out."""
        now = self._scheduler.monotonic()
        heartbeats = self._machine.state.heartbeats
        late = now - self._look_due
        if late > SESSION_CHECK_SECONDS:
            heartbeats.postpone(late)  # this process stood still, and with it all that it hears
        left = heartbeats.next_expiry(now) - now
        self._look_at_sessions_in(min(max(left, SESSION_SLACK_SECONDS), SESSION_CHECK_SECONDS))
        for broker_id in heartbeats.expired(now):
            log.info("broker session expired", broker=broker_id)
            self._write(lambda: self._machine.brokers.expire_sessions(now))

    def _elect_preferred(self) -> None:
        self._elect(self._machine.partitions.preferred_elections, self._elect_preferred)

    def _elect_unclean(self) -> None:
        self._elect(self._machine.partitions.unclean_elections, self._elect_unclean)

    def _elect(self, elections: Callable[[int], list[MetadataRecord]], task: _Task) -> None:
        """Some now; when there may be more, the rest after what else is to be done."""
        made: list[MetadataRecord] = []

        def make() -> ControllerResult[None]:
            made.extend(elections(ELECTIONS_MAX))
            return ControllerResult(None, made, atomic=False)

        self._write(make)
        if len(made) >= ELECTIONS_MAX:
            self._more[task] = self._scheduler.call_later(0.0, task)

    def _write_no_op(self) -> None:
        idle = self._scheduler.monotonic() - self._last_write
        if idle >= self._config.metadata_max_idle_interval_ms / 1000:
            self._write(lambda: ControllerResult(None, [NoOpRecord()]))
