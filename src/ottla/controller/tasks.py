"""What an active controller does unasked: fences silent brokers, moves leaders back to preferred
replicas, elects unclean leaders where that is allowed, removes expired delegation tokens, and
writes a sign of life.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from ottla.common.environment import Cancellable, Scheduler
from ottla.config.broker import BrokerConfig
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.metadata.records import MetadataRecord
from ottla.observability.logging import logger
from ottla.protocol.generated.metadata_records import NoOpRecord
from ottla.security.delegation_tokens import token_key

log = logger(__name__)

ELECTIONS_MAX: Final = 1_000
"""Leaders that are moved at once."""
TOKENS_MAX: Final = 1_000
"""Expired tokens that are removed at once."""
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
        if token_key(config) is not None:
            interval = config.delegation_token_expiry_check_interval_ms / 1000
            self._every(interval, self._remove_tokens)

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
        elections = self._machine.partitions.preferred_elections
        self._some(elections, ELECTIONS_MAX, self._elect_preferred)

    def _elect_unclean(self) -> None:
        elections = self._machine.partitions.unclean_elections
        self._some(elections, ELECTIONS_MAX, self._elect_unclean)

    def _remove_tokens(self) -> None:
        now_ms = self._scheduler.wall_ms()
        expired = self._machine.tokens.expired
        removed = self._some(
            lambda most: list(islice(expired(now_ms), most)), TOKENS_MAX, self._remove_tokens
        )
        if removed:
            log.info("expired delegation tokens removed", tokens=removed)

    def _some(
        self, records: Callable[[int], list[MetadataRecord]], at_once: int, task: _Task
    ) -> int:
        """Some now; when there may be more, the rest after what else is to be done."""
        made: list[MetadataRecord] = []

        def make() -> ControllerResult[None]:
            made.extend(records(at_once))
            return ControllerResult(None, made, atomic=False)

        self._write(make)
        if len(made) >= at_once:
            self._more[task] = self._scheduler.call_later(0.0, task)
        return len(made)

    def _write_no_op(self) -> None:
        idle = self._scheduler.monotonic() - self._last_write
        if idle >= self._config.metadata_max_idle_interval_ms / 1000:
            self._write(lambda: ControllerResult(None, [NoOpRecord()]))
