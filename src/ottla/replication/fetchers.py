"""The fetchers of a broker: one for each leader that it follows, or several by setting.

This drives the cores of :mod:`ottla.replication.fetching`: sends their requests, brings them the
answers, wakes them when a delay ends. A partition is with one fetcher at a time; it comes with each
leader epoch that the metadata log tells of, and goes when this broker leads it or has it no more.

Changes are gathered: however many partitions one image brings, each fetcher is woken once.
Counterpart in Apache Kafka: ``ReplicaFetcherManager``.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar
from zlib import crc32

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.observability.logging import logger
from ottla.observability.metrics import Meter
from ottla.protocol.fetch_answer import FetchAnswer, read_fetch_answer
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.generated.list_offsets import ListOffsetsResponse
from ottla.protocol.message import Message, Request, Response
from ottla.replication.fetch_state import FetchKey, FetchState
from ottla.replication.fetching import Fetcher, FetchSettings
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota

log = logger(__name__)

T = TypeVar("T")
R = TypeVar("R", bound=Response)

UNREGISTERED_SECONDS: Final = 0.05
"""How often it is looked whether the broker is registered."""


class FetchChannel(Protocol):
    """The way to other brokers; ``BrokerChannel`` is one."""

    def send(self, node_id: int, request: Request[R]) -> Promise[R]: ...

    def ask(
        self, node_id: int, request: Message, read: Callable[[memoryview, int, int], T]
    ) -> Promise[T]:
        """The answer, read where it was received: good until the promise's callbacks have run."""
        ...

    def close(self) -> None: ...


class _RunningFetcher:
    """One core, and what is under way for it."""

    __slots__ = (
        "_broker_epoch",
        "_bytes_in",
        "_channel",
        "_is_busy",
        "_is_stopped",
        "_is_woken",
        "_leader",
        "_requests",
        "_scheduler",
        "_timer",
        "core",
        "failures",
    )

    def __init__(
        self,
        core: Fetcher,
        leader: int,
        channel: FetchChannel,
        scheduler: Scheduler,
        broker_epoch: Callable[[], int],
        bytes_in: Meter,
        requests: Meter,
    ) -> None:
        self.core = core
        self._leader = leader
        self._channel = channel
        self._scheduler = scheduler
        self._broker_epoch = broker_epoch
        self._is_busy = False
        self._is_stopped = False
        self._is_woken = False
        self._timer: Cancellable | None = None
        self._bytes_in = bytes_in
        self._requests = requests
        self.failures = 0

    def wake(self) -> None:
        """Look soon whether there is something to ask, unless an answer is awaited anyway."""
        if not self._is_woken and not self._is_busy:
            self._is_woken = True
            self._scheduler.call_soon(self._woken)

    def _woken(self) -> None:
        self._is_woken = False
        self._go_on()

    def _go_on(self) -> None:
        if self._is_busy or self._is_stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._await_flushes()
        epoch = self._broker_epoch()
        if epoch < 0:
            # A leader must know of which incarnation of this broker a fetch is (KIP-903).
            self._timer = self._scheduler.call_later(UNREGISTERED_SECONDS, self._go_on)
            return
        now = self._scheduler.monotonic()
        request = self.core.next_request(now, epoch)
        if request is None:
            at = self.core.wake_at(now)
            if at is not None:
                self._timer = self._scheduler.call_later(max(0.0, at - now), self._go_on)
            return
        self._is_busy = True
        self._requests.count += 1
        if isinstance(request, FetchRequest):
            self._channel.ask(self._leader, request, read_fetch_answer).when_done(self._fetched)
        else:
            self._channel.send(self._leader, request).when_done(self._listed)

    def _fetched(self, promise: Promise[FetchAnswer]) -> None:
        answer = self._answer(promise)
        try:
            if answer is not None:
                scheduler = self._scheduler
                before = self.core.bytes_in
                self.core.fetched(answer, scheduler.monotonic(), scheduler.wall_ms())
                self._bytes_in.count += self.core.bytes_in - before
        finally:  # a mistake with one partition does not end the others
            self._settled()

    def _listed(self, promise: Promise[ListOffsetsResponse]) -> None:
        answer = self._answer(promise)
        try:
            if answer is not None:
                scheduler = self._scheduler
                self.core.offsets_listed(answer, scheduler.monotonic(), scheduler.wall_ms())
        finally:
            self._settled()

    def _answer(self, promise: Promise[T]) -> T | None:
        """The answer that came; None when none did, or nobody wants it any more."""
        self._is_busy = False
        try:
            answer = promise.result()
        except (OSError, ValueError) as error:  # unreachable, or of a version that is none
            self.failures += 1
            if not self._is_stopped:
                log.debug("a fetch was not answered", leader=self._leader, reason=str(error))
                self.core.failed(self._scheduler.monotonic())
            return None
        return None if self._is_stopped else answer

    def _settled(self) -> None:
        for partition, reason, is_given_up in self.core.troubles:
            log.warning(
                "a partition is not fetched any more" if is_given_up else "a fetch is tried again",
                topic=partition.topic,
                partition=partition.index,
                leader=self._leader,
                reason=reason,
            )
        self.core.troubles.clear()
        self._go_on()

    def _await_flushes(self) -> None:
        unflushed, self.core.unflushed = self.core.unflushed, []
        for state in unflushed:
            partition = state.partition
            partition.when_flushed(
                partition.log.log_end_offset - 1,
                partial(self._flushed, state),
                partial(self._is_gone, state),
            )

    def _flushed(self, state: FetchState, _error: ApiError | None) -> None:
        self.core.flushed(state)
        self.wake()

    def _is_gone(self, state: FetchState) -> bool:
        return self._is_stopped or self.core.states.get(state.key) is not state

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()


class Fetchers:
    def __init__(
        self,
        *,
        node_id: int,
        scheduler: Scheduler,
        make_channel: Callable[[int], FetchChannel],
        settings: FetchSettings,
        per_leader: int,
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota,
        is_throttled: Callable[[Partition], bool],
    ) -> None:
        self._node_id = node_id
        self._scheduler = scheduler
        self._make_channel = make_channel
        self._settings = settings
        self._per_leader = per_leader
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._is_throttled = is_throttled
        self._channels: list[FetchChannel] = []
        """One for each fetcher of a leader: what one waits for must not hold another up."""
        self._running: dict[tuple[int, int], _RunningFetcher] = {}
        """By leader, and number among those of that leader."""
        self._places: dict[FetchKey, tuple[int, int]] = {}
        self._is_stopped = False
        self.bytes_in = Meter(scheduler.monotonic())
        self.requests = Meter(scheduler.monotonic())

    # Partitions

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, in its leader epoch, from its log end on."""
        self.unfollow(partition)
        if self._is_stopped:
            return
        number = (crc32(partition.topic.encode()) + partition.index) % self._per_leader
        place = (partition.leader, number)
        running = self._running.get(place)
        if running is None:
            running = self._running[place] = self._start(*place)
        self._places[partition.topic_id, partition.index] = place
        running.core.add(partition, partition.leader_epoch, self._scheduler.wall_ms())
        running.wake()

    def unfollow(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        place = self._places.pop(key, None)
        if place is not None:
            running = self._running[place]
            running.core.remove(key)
            running.wake()

    def _start(self, leader: int, number: int) -> _RunningFetcher:
        while len(self._channels) <= number:
            self._channels.append(self._make_channel(len(self._channels)))
        core = Fetcher(self._node_id, self._settings, self._quota, self._is_throttled)
        return _RunningFetcher(
            core,
            leader,
            self._channels[number],
            self._scheduler,
            self._broker_epoch,
            self.bytes_in,
            self.requests,
        )

    # Settings

    def reconfigured(self, settings: FetchSettings, per_leader: int) -> None:
        """Follow other settings; with another number of fetchers all partitions move."""
        self._settings = settings
        for running in self._running.values():
            running.core.settings = settings
        if per_leader != self._per_leader:
            self._per_leader = per_leader
            followed = [
                state.partition
                for running in self._running.values()
                for state in running.core.states.values()
            ]
            for partition in followed:
                self.follow(partition)

    def throttles_changed(self) -> None:
        for running in self._running.values():
            running.core.throttles_changed()
            running.wake()

    # What there is to know

    def lags(self) -> dict[FetchKey, int]:
        """How far each leader's high watermark was ahead when it last told."""
        return {
            key: state.lag
            for running in self._running.values()
            for key, state in running.core.states.items()
            if state.lag is not None
        }

    @property
    def failures(self) -> int:
        """Fetches that were not answered."""
        return sum(running.failures for running in self._running.values())

    @property
    def failed_partitions(self) -> int:
        """Partitions that are given up until the metadata log speaks of them again."""
        fetched = sum(len(running.core.states) for running in self._running.values())
        return len(self._places) - fetched

    def stop(self) -> None:
        self._is_stopped = True
        for running in self._running.values():
            running.stop()
        for channel in self._channels:
            channel.close()
