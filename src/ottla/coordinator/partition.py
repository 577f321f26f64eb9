"""One partition of a coordinator's topic that this broker leads: its shard, and what is under way.

Requests are carried out one after the other against a state that may not be committed yet:

1. An operation returns records and an answer. The records are replayed at once and gathered in the
   open batch, which is written when the turn of the loop is over, or when it is full.
2. The answer waits until that batch is committed; one without records waits for everything written
   before it, since it may rest on it.
3. When a batch cannot be written, the state and the timers go back to before it, and with it go
   all later operations: their answers fail with the same error.

Two kinds of batches are made alone and at once: what is written within a client's transaction, and
the marker that ends one (``complete_transaction``).

An answer that waits longer than ``commit_timeout_ms`` fails, whatever it waits for, but its batch
is not taken back: it is in the log, and may yet be committed. ``Outcome.stored`` hears only how it
ended. What a timer does is never refused for want of room: nobody would ask for it again.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ottla.common.environment import Cancellable
from ottla.common.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptMessage,
    NotCoordinator,
    NotLeaderOrFollower,
    ProtocolViolation,
    RequestTimedOut,
)
from ottla.common.mistakes import call_all
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.loading import replay
from ottla.coordinator.outside import EndTransactionMarker, Producer, RuntimeOutside
from ottla.coordinator.shard import NO_PRODUCER_ID, Outcome, RecordFormat, Shard, Stored
from ottla.coordinator.timeline import Timeline
from ottla.coordinator.timers import Changes, Timers, merge
from ottla.records.builder import BatchBuilder
from ottla.records.control import transaction_marker_batch

S = TypeVar("S", bound=Shard[Any])
T = TypeVar("T")

Operation = Callable[[S, int], Outcome[Any, T]]
"""A request: the shard and the time in ms in, records and an answer out."""
Action = Callable[[int], Outcome[Any, None]]
"""What a timer does: an operation whose shard is bound already."""
ShardFactory = Callable[[Timeline, Timers[Action]], S]

IN_FLIGHT_MAX: Final = 1000
"""Batches that may wait for their commit; beyond it the coordinator is not available."""
LOAD_RETRY_MS: Final = 500
"""The pause before a log is read again that could not be read now."""
TAIL_POLL_MS: Final = 50
"""How often the high watermark is looked at while a part of what was loaded is not committed."""
_SLACK_SECONDS: Final = 0.001
"""Answers whose time is up so soon fail together."""


class CoordinatorState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    """Its log is damaged, or another leads it by now: only a new election tries again."""
    CLOSED = auto()


class _Waiting:
    """A response, until when it waits, and what is told of its records."""

    __slots__ = ("answer", "deadline", "promise", "stored")

    def __init__(self, promise: Promise[Any], answer: object, stored: Stored | None) -> None:
        self.promise = promise
        self.answer = answer
        self.stored = stored
        self.deadline = 0.0
        """Set when there is something in flight to wait for."""


class _Batch:
    """Records on their way to the log, and the answers that wait for them."""

    __slots__ = (
        "alarm",
        "base_offset",
        "builder",
        "changes",
        "layer",
        "marker",
        "producer",
        "told_late",
        "waiting",
    )

    def __init__(self, base_offset: int, layer: int) -> None:
        self.base_offset = base_offset
        self.layer = layer
        self.builder = BatchBuilder()
        self.producer: Producer | None = None
        """Whose transaction its records belong to."""
        self.marker: EndTransactionMarker | None = None
        """What it is, if it is no batch of records."""
        self.waiting: deque[_Waiting] = deque()
        """In the order of their deadlines."""
        self.told_late: list[Stored] = []
        """Of answers that have waited for too long."""
        self.alarm: Cancellable | None = None
        self.changes: Changes[Action] = {}
        """What is to be undone with its timers when it cannot be written."""


class CoordinatorPartition(Generic[S]):
    def __init__(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        outside: RuntimeOutside,
        make_shard: ShardFactory[S],
        record_format: RecordFormat[Any],
        on_load: "Callable[[CoordinatorPartition[S]], None]",
    ) -> None:
        """``on_load`` is called when it is loaded, cannot be, or has to try again later."""
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self._outside = outside
        self._make_shard = make_shard
        self._format = record_format
        self._on_load = on_load
        self._start_over()

    def _start_over(self) -> None:
        self.state = CoordinatorState.LOADING
        self._timeline = Timeline()
        self._timers: Timers[Action] = Timers(self._outside.scheduler, self._run_timer)
        self.shard: S = self._make_shard(self._timeline, self._timers)
        self._in_flight: deque[_Batch] = deque()
        self._markers: dict[EndTransactionMarker, _Batch] = {}
        """Those in flight."""
        self._batch: _Batch | None = None
        self._failures = 0
        self._failure: ApiError | None = None
        """How many batches could not be written, and why the last could not."""
        self._flush_due = False
        self._next_offset = 0
        self.records_loaded = 0
        self.load_error: ApiError | ProtocolViolation | None = None
        self.load_began = self._outside.scheduler.monotonic()
        self._tail_end: int | None = None
        """The log end offset when loaded, as long as the high watermark has not come so far."""

    # Loading and unloading

    def load(self) -> None:
        """Replay the log slice by slice, a turn of the loop each."""
        self._load_slice(self.shard)

    def _load_slice(self, shard: S) -> None:
        if self.shard is not shard or self.state is not CoordinatorState.LOADING:
            return
        reader, topic_partition = self._outside.reader, self.topic_partition
        try:
            start = reader.log_start_offset(*topic_partition)
            self._next_offset = max(self._next_offset, start)  # what was below it is gone
            end = reader.log_end_offset(*topic_partition)
            stop = end
            if self._tail_end is None:
                stop = min(reader.high_watermark(*topic_partition), end)
                if self._next_offset >= stop and stop < end:
                    self._timeline.begin()
                    self._tail_end = stop = end
            data = b""
            if self._next_offset < stop:
                data = reader.read(*topic_partition, self._next_offset, self._outside.load_bytes)
            if data:
                replayed = replay(data, self._next_offset, stop, shard, self._format)
                self._next_offset = replayed.next_offset
                self.records_loaded += replayed.records
            else:
                self._next_offset = stop
        except (CorruptMessage, NotLeaderOrFollower, ProtocolViolation) as error:
            self.state = CoordinatorState.FAILED
            self.load_error = error
            self._on_load(self)
            return
        except ApiError as error:
            # For want of a descriptor, say.
            self.load_error = error
            self._on_load(self)
            self._outside.scheduler.call_later(LOAD_RETRY_MS / 1000, self._load_slice, shard)
            return
        if self._next_offset < end:
            self._outside.scheduler.call_soon(self._load_slice, shard)
        else:
            self._loaded()

    def _loaded(self) -> None:
        self.state = CoordinatorState.ACTIVE
        self.load_error = None
        self._on_load(self)
        if self._tail_end is None:
            self._timeline.begin()
        else:
            self._tail_end = self._next_offset
            self._in_flight.append(_Batch(self._next_offset, self._timeline.seal()))
            self._await_tail(self.shard)
        self._batch = _Batch(self._next_offset, self._timeline.open_layer)
        self.shard.loaded(self._outside.scheduler.wall_ms())

    def _await_tail(self, shard: S) -> None:
        if self.shard is not shard or self.state is not CoordinatorState.ACTIVE:
            return
        if self._tail_end is None:
            return  # a later write is committed, and so is the tail
        try:
            high_watermark = self._outside.reader.high_watermark(*self.topic_partition)
        except ApiError:
            high_watermark = -1  # we lead it no longer, and shall hear so, or lead it again
        if high_watermark >= self._tail_end:
            self._commit_through(self._in_flight[0])
        else:
            self._outside.scheduler.call_later(TAIL_POLL_MS / 1000, self._await_tail, shard)

    def close(self) -> None:
        """Stop: waiting requests are told that the coordinator is elsewhere."""
        state, self.state = self.state, CoordinatorState.CLOSED
        if state is CoordinatorState.ACTIVE:
            self._unload(NotCoordinator())

    def _reload(self, error: ApiError) -> None:
        """Begin again from the log, of which we do not know any more what it holds."""
        self.state = CoordinatorState.LOADING  # what ``stored`` does in this call may ask again
        try:
            self._unload(error)
        finally:
            self._start_over()
            self._outside.scheduler.call_soon(self.load)

    def _unload(self, error: ApiError) -> None:
        batches = [*self._in_flight, self._open]
        self._in_flight.clear()
        self._markers.clear()
        self._batch = None
        self._timers.stop()
        try:
            self.shard.unloaded(self._outside.scheduler.wall_ms())
        finally:
            self._settle(batches, error)

    @property
    def waiting(self) -> int:
        """How many answers, and how many that want to hear of records, wait for a commit."""
        batches = [*self._in_flight, *([] if self._batch is None else [self._batch])]
        return sum(len(batch.waiting) + len(batch.told_late) for batch in batches)

    # Operations

    def check_active(self) -> None:
        if self.state is CoordinatorState.LOADING:
            raise CoordinatorLoadInProgress
        if self.state is not CoordinatorState.ACTIVE:
            raise NotCoordinator

    def write(self, operation: Operation[S, T]) -> Promise[T]:
        """Carry out ``operation`` now; the answer comes when what it rests on is committed."""
        promise: Promise[T] = Promise(self._outside.scheduler.turn)
        try:
            self._make_room()
            if len(self._in_flight) >= IN_FLIGHT_MAX:
                raise CoordinatorNotAvailable
        except ApiError as error:
            promise.fail(error)
        else:
            self._carry_out(operation, promise)
        return promise

    def _carry_out(self, operation: Operation[S, T], promise: Promise[T]) -> None:
        timers, now_ms = self._timers, self._outside.scheduler.wall_ms()
        stored: Stored | None = None
        changes: Changes[Action] = {}
        noted, timers.noted = timers.noted, changes
        try:
            try:
                outcome = operation(self.shard, now_ms)
            finally:
                timers.noted = noted
            stored = outcome.stored or outcome.then
            if outcome.records:
                self._gather(outcome, now_ms)
        except ApiError as error:
            timers.undo(changes)
            if stored is not None:
                stored(error, now_ms)
            promise.fail(error)
            return
        self._await_commit(_Waiting(promise, outcome.answer, stored), changes)
        if outcome.records and not self._flush_due:
            self._flush_due = True
            self._outside.scheduler.call_soon(self._turn_is_over, self.shard)

    def _await_commit(self, waiting: _Waiting, changes: Changes[Action]) -> None:
        """Let an answer wait for all that was written before it."""
        batch = self._open
        if not batch.builder.count:
            if not self._in_flight:
                self._tell(waiting, None, self._outside.scheduler.wall_ms())
                return
            batch = self._in_flight[-1]
            self._wait_for(batch, waiting)
        else:
            batch.waiting.append(waiting)
        if changes:
            merge(batch.changes, changes)

    def _wait_for(self, batch: _Batch, waiting: _Waiting) -> None:
        """``batch`` is in flight: it may be long until it is committed, or never."""
        scheduler = self._outside.scheduler
        waiting.deadline = scheduler.monotonic() + self._outside.commit_timeout_ms / 1000
        batch.waiting.append(waiting)
        self._watch(batch)

    def write_transactional(self, producer: Producer, operation: Operation[S, T]) -> Promise[T]:
        """Like ``write``, with records that count when the transaction of ``producer`` commits."""
        self.check_active()
        if self._open.builder.count:
            self._flush()
            self.check_active()
        self._open.producer = producer
        promise = self.write(operation)
        if self.state is CoordinatorState.ACTIVE:
            if self._open.builder.count:
                self._flush()
            else:
                self._open.producer = None
        return promise

    def complete_transaction(self, marker: EndTransactionMarker) -> Promise[None]:
        """Write the marker that ends a transaction, and let its records count, or not."""
        self.check_active()
        if self._open.builder.count:
            self._flush()
            self.check_active()
        promise: Promise[None] = Promise(self._outside.scheduler.turn)
        waiting = _Waiting(promise, None, None)
        same = self._markers.get(marker)
        if same is not None:  # a repeated request need not have it written again
            self._wait_for(same, waiting)
            return promise
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            raise CoordinatorNotAvailable
        batch = self._open
        batch.marker = marker
        self._markers[marker] = batch
        batch.waiting.append(waiting)
        data = transaction_marker_batch(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._outside.scheduler.wall_ms(),
        )
        self.shard.replay_end_transaction(marker.producer_id, committed=marker.committed)
        self._next_offset += 1
        self._send(batch, bytes(data), transaction_version=marker.transaction_version)
        return promise

    @property
    def _open(self) -> _Batch:
        assert self._batch is not None
        return self._batch

    def _make_room(self, size: int = 0) -> None:
        """See that the open batch can take more; what is large in itself gets one of its own."""
        self.check_active()
        full = self._open.builder.size >= self._outside.batch_bytes
        if full or (size >= self._outside.batch_bytes and self._open.builder.count):
            self._flush()
            self.check_active()

    def _gather(self, outcome: Outcome[Any, Any], now_ms: int) -> None:
        encoded = [(record, *self._format.encode(record)) for record in outcome.records]
        failures = self._failures
        if outcome.atomic:
            self._make_room(sum(len(key) + len(value or b"") for _, key, value in encoded))
        producer = self._open.producer
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        for record, key, value in encoded:
            if not outcome.atomic:
                self._make_room()
            if self._failures > failures:
                assert self._failure is not None
                raise self._failure  # the state that these records rest on is gone
            if outcome.stored is None:
                self.shard.replay(self._next_offset, producer_id, record)
            self._open.builder.append(now_ms, key, value)
            self._next_offset += 1

    def _run_timer(self, key: Hashable) -> None:
        self._carry_out(
            lambda _, now_ms: self._timers.take(key)(now_ms), Promise(self._outside.scheduler.turn)
        )

    # Writing

    def _turn_is_over(self, shard: S) -> None:
        if self.shard is shard:
            self._flush_due = False
            if self.state is CoordinatorState.ACTIVE and self._open.builder.count:
                self._flush()

    def _flush(self) -> None:
        batch, producer = self._open, self._open.producer
        codec = self._outside.compression
        if producer is None:
            plain = batch.builder.build(codec=codec, base_sequence=self._outside.base_sequence)
            self._send(batch, bytes(plain))
            return
        data = batch.builder.build(
            codec=codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        self._send(batch, bytes(data))

    def _send(self, batch: _Batch, data: bytes, *, transaction_version: int = 0) -> None:
        self._in_flight.append(batch)
        self._timeline.seal()
        self._batch = _Batch(self._next_offset, self._timeline.open_layer)
        last_offset = self._next_offset - 1
        appended = self._outside.writer.append(
            *self.topic_partition,
            data,
            verification=None if batch.producer is None else batch.producer.verification,
            transaction_version=transaction_version,
        )
        appended.when_done(lambda promise: self._appended(batch, last_offset, promise))
        if not appended.done:
            scheduler = self._outside.scheduler
            deadline = scheduler.monotonic() + self._outside.commit_timeout_ms / 1000
            for waiting in batch.waiting:
                waiting.deadline = deadline
            self._watch(batch)

    def _appended(self, batch: _Batch, expected: int, promise: Promise[int]) -> None:
        if batch not in self._in_flight:
            return
        try:
            last_offset = promise.result()
        except ApiError as error:
            self._failed(batch, error)
            return
        if last_offset == expected:
            self._commit_through(batch)
        else:  # somebody else has written: the log knows more than we do
            self._reload(NotCoordinator())

    def _commit_through(self, batch: _Batch) -> None:
        committed = []
        while self._in_flight and self._in_flight[0].layer <= batch.layer:
            committed.append(self._in_flight.popleft())
            self._forget_marker(committed[-1])
        self._timeline.commit(batch.layer)
        self._tail_end = None
        self._settle(committed, None)

    def _failed(self, batch: _Batch, error: ApiError) -> None:
        if self._in_flight[-1] is not batch:
            self._reload(error)
            return
        self._in_flight.pop()
        self._forget_marker(batch)
        self._timeline.revert(batch.layer)
        later, self._batch = self._open, _Batch(batch.base_offset, self._timeline.open_layer)
        self._next_offset = batch.base_offset
        self._timers.undo(later.changes)
        self._timers.undo(batch.changes)
        self._failures += 1
        self._failure = error
        try:
            self.shard.reverted(error, self._outside.scheduler.wall_ms())
        finally:
            self._settle((batch, later), error)

    def _forget_marker(self, batch: _Batch) -> None:
        if batch.marker is not None:
            del self._markers[batch.marker]

    def _watch(self, batch: _Batch) -> None:
        """See that nobody waits for ``batch`` beyond its time."""
        if batch.alarm is None and batch.waiting:
            delay = batch.waiting[0].deadline - self._outside.scheduler.monotonic()
            batch.alarm = self._outside.scheduler.call_later(
                max(delay, 0.0), self._time_is_up, batch
            )

    def _time_is_up(self, batch: _Batch) -> None:
        batch.alarm = None
        try:
            call_all(self._too_late(batch))
        finally:
            self._watch(batch)

    def _too_late(self, batch: _Batch) -> Iterator[Callable[[], None]]:
        due = self._outside.scheduler.monotonic() + _SLACK_SECONDS
        while batch.waiting and batch.waiting[0].deadline <= due:
            one = batch.waiting.popleft()
            if one.stored is not None:
                batch.told_late.append(one.stored)
            yield partial(one.promise.fail, RequestTimedOut())

    def _settle(self, batches: Iterable[_Batch], error: ApiError | None) -> None:
        """Tell all that wait how these batches ended, whatever comes of telling one of them."""
        now_ms = self._outside.scheduler.wall_ms()
        calls: list[Callable[[], None]] = []
        for batch in batches:
            if batch.alarm is not None:
                batch.alarm.cancel()
                batch.alarm = None
            calls += [partial(stored, error, now_ms) for stored in batch.told_late]
            calls += [partial(self._tell, one, error, now_ms) for one in batch.waiting]
            batch.told_late, batch.waiting = [], deque()
        call_all(calls)

    def _tell(self, one: _Waiting, error: ApiError | None, now_ms: int) -> None:
        try:
            if one.stored is not None:
                one.stored(error, now_ms)
        finally:
            if error is None:
                one.promise.fulfil(one.answer)
            else:
                one.promise.fail(error)
