"""What a follower fetches from one leader: the core of a fetcher, without time, disk or network.

One request is under way at a time. ``next_request`` says what to send, ``answered`` or ``failed``
what became of it; in between partitions may come and go.

Rules:
1. An answer counts for a partition only if it was asked for what the partition still wants: the
   same offset in the same leader epoch. All else is of a time that is over.
2. What the leader sends is appended as it is, or not at all; what it says of high watermark and log
   start is believed only together with that.
3. A leader whose log diverges from ours says so in its answer (KIP-595): then ours is cut, and
   nothing else of that answer is used.
4. By fetching an offset a follower claims to have what stands below. So where a flush is due
   (``flush.messages``) a partition is not fetched before it is done. The next request waits for the
   flushes of what has just come, as Kafka's does, but no longer than an answer may take anyway: a
   disk that hangs holds up its own partitions alone.
5. Whatever goes wrong with a partition delays that one alone. One whose disk fails, whose leader
   has been replaced, or with which we make a mistake, is given up until the metadata log speaks of
   it again.

Counterpart in Apache Kafka: ``AbstractFetcherThread``, ``ReplicaFetcherThread``,
``RemoteLeaderEndPoint``.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ottla.common.errors import ApiError, CorruptMessage, ErrorCode, InvalidRecord
from ottla.common.mistakes import raise_first
from ottla.protocol.fetch_answer import FetchAnswer, FetchedRecords
from ottla.protocol.generated.fetch import FetchRequest, ReplicaState
from ottla.protocol.generated.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.replication.divergence import truncation_offset
from ottla.replication.fetch_state import FetchKey, FetchState
from ottla.replication.follower_session import FollowerSession
from ottla.replication.offset_resets import OffsetResets, ResetOutcome
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.storage.directories import LogUnavailable
from ottla.storage.results import UnexpectedAppendOffset

LOG_START_CHECK_SECONDS: Final = 1.0
"""How often it is looked whether retention has moved the beginning of a log."""
FIRST_DELAY_SECONDS: Final = 0.02
"""After the first refusal by a leader that has not heard of its election; doubled by each next."""
_NOT_YET_ELECTED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)


class FetchSettings(NamedTuple):
    """Settings of Kafka's of the same names: ``replica.fetch.*``."""

    min_bytes: int
    max_bytes: int
    response_max_bytes: int
    wait_max_ms: int
    backoff_ms: int


class Trouble(NamedTuple):
    """What went wrong with a partition, for the log."""

    partition: Partition
    reason: str
    is_given_up: bool


class Fetcher:
    def __init__(
        self,
        node_id: int,
        settings: FetchSettings,
        quota: ReplicationQuota,
        is_throttled: Callable[[Partition], bool],
    ) -> None:
        self.settings = settings
        self._node_id = node_id
        self._quota = quota
        self._is_throttled = is_throttled
        self._session = FollowerSession()
        self._resets = OffsetResets(node_id)
        self.states: dict[FetchKey, FetchState] = {}
        self._changed: dict[FetchKey, None] = {}
        """Those of which the leader may have to be told something."""
        self._delays: list[tuple[float, int, FetchState]] = []
        """When which delay ends, the earliest first; some may be of states that are gone."""
        self._delay_count = 0
        self._throttled: dict[FetchKey, None] = {}
        self.troubles: list[Trouble] = []
        """To be told and taken by the driver."""
        self.unflushed: list[FetchState] = []
        """To be taken by the driver, which says by ``flushed`` when a flush is not due any more."""
        self._awaited: dict[FetchKey, FetchState] = {}
        """Those whose flushes the next request waits for."""
        self._awaited_until = 0.0
        self._log_starts_checked = 0.0
        self.bytes_in = 0

    # Partitions

    def add(self, partition: Partition, leader_epoch: int, now_ms: int) -> None:
        """Follow a partition from its log end on, in ``leader_epoch``."""
        self.remove((partition.topic_id, partition.index))
        log = partition.log
        if log.latest_epoch < 0 and log.high_watermark < log.log_end_offset:
            # Without epochs nobody can say where the logs diverge.
            try:
                partition.truncate_to(log.high_watermark, now_ms)
            except ApiError as error:
                self.troubles.append(Trouble(partition, error.message, is_given_up=True))
                return
        state = FetchState(partition, leader_epoch)
        state.is_throttled = self._is_throttled(partition)
        if state.is_throttled:
            self._throttled[state.key] = None
        self.states[state.key] = state
        self._changed[state.key] = None
        if log.is_flush_due:
            self._flush(state)

    def remove(self, key: FetchKey) -> None:
        state = self.states.pop(key, None)
        if state is not None:
            self._resets.forget(state)
            self._throttled.pop(key, None)
            self._awaited.pop(key, None)
            self._changed[key] = None

    # Flushes

    def _flush(self, state: FetchState) -> None:
        state.is_flushing = True
        self.unflushed.append(state)
        self._changed[state.key] = None

    def flushed(self, state: FetchState) -> None:
        """A flush of it has ended, or is not heard of any more."""
        if self.states.get(state.key) is not state:
            return
        if state.partition.log.is_flush_due:
            self.unflushed.append(state)
        else:
            state.is_flushing = False
            self._awaited.pop(state.key, None)
            self._changed[state.key] = None

    def throttles_changed(self) -> None:
        self._throttled.clear()
        for key, state in self.states.items():
            state.is_throttled = self._is_throttled(state.partition)
            if state.is_throttled:
                self._throttled[key] = None
            elif state.is_held:
                self._hold(state, is_held=False)

    def _delay(self, state: FetchState, now: float, seconds: float | None = None) -> None:
        if state.delayed_until is None:
            longest = self.settings.backoff_ms / 1000
            state.delayed_until = now + (longest if seconds is None else min(seconds, longest))
            self._delay_count += 1
            heappush(self._delays, (state.delayed_until, self._delay_count, state))
            self._changed[state.key] = None

    def _give_up(self, state: FetchState, reason: str) -> None:
        self.remove(state.key)
        self.troubles.append(Trouble(state.partition, reason, is_given_up=True))

    # Requests

    def next_request(
        self, now: float, broker_epoch: int
    ) -> FetchRequest | ListOffsetsRequest | None:
        """What to send now; None when there is nothing to ask before ``wake_at``."""
        if self._awaited:
            if now < self._awaited_until:
                return None
            self._awaited.clear()
        self._end_delays(now)
        if self._throttled:
            self._throttle(now)
        if now - self._log_starts_checked >= LOG_START_CHECK_SECONDS:
            self._check_log_starts(now)
        question = self._resets.request()
        if question is not None:
            return question
        session = self._session
        if session.is_full:
            states = [state for state in self.states.values() if state.is_ready]
            self._changed.clear()
            if not states:
                session.told.clear()
                return None
            request = self._new_request(now, broker_epoch)
            session.name_all(request, states, self.settings.max_bytes)
            return request
        changed, self._changed = self._changed, {}
        request = self._new_request(now, broker_epoch)
        ready = [(key, self._ready(key)) for key in changed]
        session.name_changes(request, ready, self.settings.max_bytes)
        if session.told:
            return request
        request.max_wait_ms = 0  # it only ends the session
        return request if request.forgotten_topics_data else None

    def _ready(self, key: FetchKey) -> FetchState | None:
        state = self.states.get(key)
        return state if state is not None and state.is_ready else None

    def _new_request(self, now: float, broker_epoch: int) -> FetchRequest:
        settings = self.settings
        wait_ms = settings.wait_max_ms
        if self._delays:
            # A partition that is due soon must not wait for others that have nothing new.
            wait_ms = min(wait_ms, int((self._delays[0][0] - now) * 1000) + 1)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            isolation_level=0,
        )

    def wake_at(self, now: float) -> float | None:
        """When to look again, if nothing was to be sent; None if only a new partition helps."""
        if not self.states:
            return None
        if self._awaited:
            return self._awaited_until
        at = now + self.settings.backoff_ms / 1000
        return min(at, self._delays[0][0]) if self._delays else at

    def _end_delays(self, now: float) -> None:
        delays = self._delays
        while delays:
            until, _, state = delays[0]
            if self.states.get(state.key) is state:
                if until > now:
                    return
                state.delayed_until = None
                self._changed[state.key] = None
            heappop(delays)

    def _throttle(self, now: float) -> None:
        """Leave throttled partitions out while too much has come (KIP-73); not those in sync."""
        is_exceeded = self._quota.is_exceeded(now)
        for key in self._throttled:
            state = self.states[key]
            is_held = is_exceeded and not state.is_in_sync
            if is_held != state.is_held:
                self._hold(state, is_held=is_held)

    def _hold(self, state: FetchState, *, is_held: bool) -> None:
        state.is_held = is_held
        self._changed[state.key] = None

    def _check_log_starts(self, now: float) -> None:
        self._log_starts_checked = now
        states = self.states
        for key, told in self._session.told.items():
            state = states.get(key)
            if state and state.partition.log.log_start_offset != told.log_start_offset:
                self._changed[key] = None

    # Answers

    def failed(self, now: float) -> None:
        """No answer came."""
        self._session.failed()
        self._resets.failed()
        self._delay_all(now)

    def offsets_listed(self, answer: ListOffsetsResponse, now: float, now_ms: int) -> None:
        for state, outcome in self._resets.answered(answer, now_ms):
            self._changed[state.key] = None
            if outcome is ResetOutcome.FENCED:
                self._give_up(state, "the leader is of a later epoch")
            elif outcome is ResetOutcome.BROKEN:
                self._give_up(state, "its log cannot be cut")
            elif outcome is ResetOutcome.AGAIN:
                self._delay(state, now)

    def fetched(self, answer: FetchAnswer, now: float, now_ms: int) -> None:
        if not self._session.answered(answer):
            if answer.error_code not in _SESSION_ERRORS:
                self._delay_all(now)
            return
        mistakes: list[Exception] = []
        for fetched in answer.partitions:
            key = (fetched.topic_id, fetched.partition)
            state = self.states.get(key)
            told = self._session.told[key]
            if (
                state is None
                or told.offset != state.offset
                or told.leader_epoch != state.leader_epoch
                or not state.is_ready
            ):
                continue
            if fetched.error_code:
                self._refused(state, fetched.error_code, now)
                continue
            try:
                if fetched.diverging_epoch >= 0:
                    self._diverges(state, fetched, now_ms)
                else:
                    self._append(state, fetched, now, now_ms)
            except (CorruptMessage, InvalidRecord) as error:
                self.troubles.append(Trouble(state.partition, error.message, is_given_up=False))
                self._delay(state, now)
            except LogUnavailable:  # its disk is well: later is soon enough
                self._delay(state, now)
            except ApiError as error:
                self._give_up(state, error.message)
            except Exception as error:  # noqa: BLE001 - raised below
                self._give_up(state, repr(error))
                mistakes.append(error)
        if mistakes:
            raise_first(mistakes)

    def _delay_all(self, now: float) -> None:
        for state in self.states.values():
            self._delay(state, now)

    def _append(self, state: FetchState, fetched: FetchedRecords, now: float, now_ms: int) -> None:
        partition, records = state.partition, fetched.records
        if partition.log.log_end_offset != state.offset:
            state.at_log_end()
            self._changed[state.key] = None
            return
        try:
            partition.append_as_follower(
                records, fetched.high_watermark, fetched.log_start_offset, now_ms
            )
        except UnexpectedAppendOffset as error:
            log = partition.log
            is_empty = log.log_start_offset == log.log_end_offset
            if not is_empty or not error.first_offset < log.log_end_offset <= error.last_offset:
                raise
            # The leader's log begins in the middle of a batch, which comes whole.
            partition.truncate_fully_and_start_at(error.first_offset, now_ms)
            partition.append_as_follower(
                records, fetched.high_watermark, fetched.log_start_offset, now_ms
            )
        state.refusals = 0
        size = len(records)
        self.bytes_in += size
        if state.is_throttled:
            self._quota.record(size, now)
        log = partition.log
        offset = log.log_end_offset
        state.lag = max(0, fetched.high_watermark - offset)
        if offset != state.offset or log.log_start_offset != self._told_start(state):
            state.offset = offset
            state.last_fetched_epoch = log.latest_epoch
            self._changed[state.key] = None
        if log.is_flush_due:
            self._flush(state)
            self._awaited[state.key] = state
            self._awaited_until = now + self.settings.wait_max_ms / 1000

    def _told_start(self, state: FetchState) -> int:
        return self._session.told[state.key].log_start_offset

    def _diverges(self, state: FetchState, fetched: FetchedRecords, now_ms: int) -> None:
        partition = state.partition
        if fetched.diverging_end < 0:
            raise CorruptMessage(f"a leader's epoch that ends at {fetched.diverging_end}")
        offset = truncation_offset(partition.log, fetched.diverging_epoch, fetched.diverging_end)
        if offset <= fetched.log_start_offset:
            # The leader has forgotten where that epoch ended: what is left below may be false too.
            partition.truncate_fully_and_start_at(fetched.log_start_offset, now_ms)
        else:
            partition.truncate_to(offset, now_ms)
        state.at_log_end()
        self._changed[state.key] = None

    def _refused(self, state: FetchState, error_code: int, now: float) -> None:
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._resets.begin(state)
            self._changed[state.key] = None
        elif error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._resets.begin(state, is_remote=True)
            self._changed[state.key] = None
        elif error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self._give_up(state, "the leader is of a later epoch")
        elif error_code in _NOT_YET_ELECTED:
            # It will hear of it any moment, and until then nothing is acknowledged.
            self._delay(state, now, FIRST_DELAY_SECONDS * (1 << min(state.refusals, 10)))
            state.refusals += 1
        else:
            self._delay(state, now)
