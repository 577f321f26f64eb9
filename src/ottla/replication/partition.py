"""A partition of this broker, led or followed: its epoch, its records, its high watermark.

The hot path runs through here, so it offers plain methods in place of events; they do no I/O of
their own and take ``now_ms``. What a leader knows of its followers is in ``leadership``.

Rules:
1. The high watermark is the least log end offset of the in-sync replicas; it does not go back while
   this broker leads, and a follower's is never above its leader's.
2. acks=all is refused when fewer replicas are in sync than ``min.insync.replicas``, before anything
   is written, and acknowledged when the high watermark has passed.
3. Readers are told by their epoch when they speak to the wrong leader (KIP-320).
4. A transactional batch is appended only while its transaction is known to be open (KIP-890).
5. What the metadata log says is taken unless a newer partition epoch is known.
"""

from functools import partial
from typing import Final

from ottla.common.errors import (
    ApiError,
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from ottla.common.promise import Promise
from ottla.protocol.fetch_response import FetchedPartition
from ottla.records.batch import Buffer, read_header
from ottla.records.rules import AppendOrigin
from ottla.replication.acknowledgements import Acknowledge, Acknowledgements, IsOver, never, settle
from ottla.replication.due_flush import DueFlush
from ottla.replication.isr import ProposedIsr
from ottla.replication.leadership import Leadership
from ottla.replication.outside import PartitionOutside, PartitionState
from ottla.replication.readers import Readers
from ottla.replication.replica_counts import (
    AT_MIN_ISR,
    LED,
    PRESENT,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
)
from ottla.replication.verification import VerificationGuard, Verifications
from ottla.storage.joint_append import Batch, Outcome
from ottla.storage.log import Log
from ottla.storage.remote import RemoteData, RemoteLogs
from ottla.storage.results import AppendInfo

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_EPOCH = -1
_NO_LEADER: Final = -1


class Partition:
    __slots__ = (
        "_acknowledgements",
        "_conditions",
        "_deletions",
        "_flush",
        "_min_insync_replicas",
        "_outside",
        "counts",
        "index",
        "is_under_min_isr",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "node_id",
        "partition_epoch",
        "readers",
        "replicas",
        "replication_factor",
        "topic",
        "topic_id",
        "verifications",
    )

    def __init__(
        self,
        node_id: int,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        outside: PartitionOutside,
    ) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader = _NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.replication_factor = 0
        """How many replicas there are to be, without those that a reassignment adds."""
        self._outside = outside
        self.leadership = Leadership(node_id, outside)
        self._min_insync_replicas = 1
        self.is_under_min_isr = False
        """Whether fewer replicas are in sync than must be; of a follower never."""
        self._conditions = 0
        """As ``ReplicaCounts`` has counted it."""
        self.counts = outside.topics.join(topic)
        self._acknowledgements = Acknowledgements(outside.turn)
        self._flush = DueFlush(outside, self._flushed)
        self._deletions = Acknowledgements(outside.turn)
        """The requests that wait for the low watermark."""
        self.readers = Readers()
        self.verifications = Verifications()

    # What the metadata log says

    def apply_state(self, state: PartitionState, min_insync_replicas: int | None = None) -> None:
        """Lead or follow, as the metadata log says."""
        if state.partition_epoch < self.partition_epoch:
            return  # the controller's own answer came before it
        if min_insync_replicas is not None:
            self._min_insync_replicas = min_insync_replicas
        before = (self.leader, self.leader_epoch)
        # In an epoch that was not heard of another may have led, and have cut what followers had.
        was_leader = self.is_leader and state.leader_epoch <= self.leader_epoch + 1
        is_new_epoch = state.leader_epoch > self.leader_epoch
        is_known = state.partition_epoch == self.partition_epoch and not is_new_epoch
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.replication_factor = len(state.replicas) - len(state.adding_replicas)
        leadership = self.leadership
        if self.is_leader:
            if not was_leader:
                leadership.end()
                self._flush.fail(NotLeaderOrFollower())
            leadership.assign(state.replicas)
            if not is_known:
                # An ISR that the controller's answer has told already ends no proposal: the next
                # one may be under way, and who is in it must count until it is answered.
                leadership.in_sync.commit(state.isr)
            if is_new_epoch:
                self.log.begin_leader_epoch(state.leader_epoch)
                leadership.begin_epoch(self.log.log_end_offset, is_new_leader=not was_leader)
            self._count_in_sync()
            self._advance_high_watermark()
        else:
            self._end_leadership(NotLeaderOrFollower())
            self._count(PRESENT)
        if before != (self.leader, self.leader_epoch):
            self.answer_all()

    def answer_all(self) -> None:
        """Answer all that wait: what they wait for is not to be had here."""
        self.readers.answer_all()

    def removed(self, reason: ApiError) -> None:
        """This broker has no replica any more."""
        self.leader = _NO_LEADER
        self._end_leadership(reason)
        self._count(0)
        self._outside.topics.leave(self.topic, self.counts)
        self.answer_all()

    def _end_leadership(self, reason: ApiError) -> None:
        self.leadership.end()
        self.is_under_min_isr = False
        self._acknowledgements.fail(reason)
        self._flush.fail(reason)
        self._deletions.fail(reason)

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas that the controller has confirmed; of a follower none."""
        return self.leadership.in_sync.committed

    @property
    def min_insync_replicas(self) -> int:
        return self._min_insync_replicas

    @min_insync_replicas.setter
    def min_insync_replicas(self, count: int) -> None:
        if count != self._min_insync_replicas:
            self._min_insync_replicas = count
            self._count_in_sync()
            if self.is_leader:
                self._advance_high_watermark()

    @property
    def effective_min_isr(self) -> int:
        """A partition cannot need more replicas than it has."""
        return min(self._min_insync_replicas, len(self.leadership.followers) + 1)

    def _count_in_sync(self) -> None:
        if not self.is_leader:
            self.is_under_min_isr = False
            return
        in_sync, needed = len(self.isr), self.effective_min_isr
        self.is_under_min_isr = in_sync < needed
        conditions = PRESENT | LED
        if self.is_under_min_isr:
            conditions |= UNDER_MIN_ISR
        elif in_sync == needed:
            conditions |= AT_MIN_ISR
        if in_sync < self.replication_factor:
            conditions |= UNDER_REPLICATED
        self._count(conditions)

    def _count(self, conditions: int) -> None:
        if conditions != self._conditions:
            self._outside.counts.changed(self._conditions, conditions)
            self._conditions = conditions

    # Followers of this leader

    def fetch_as_follower(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        *,
        at_least_one: bool,
        log_start_offset: int,
        last_fetched_epoch: int = NO_EPOCH,
        is_new: bool = True,
    ) -> FetchedPartition:
        """Read for a follower, up to the end of the log; by asking it says what it has.

        Not so when it ``is_new`` no more: a fetch that has waited says nothing that it had not
        said when it came.
        """
        if current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        follower = self.leadership.followers.get(broker_id)
        if follower is None:
            # It may know of a reassignment that has not come here yet: it is to ask again.
            raise UnknownLeaderEpoch if current_leader_epoch >= 0 else NotLeaderOrFollower
        log = self.log
        leader_end = log.log_end_offset
        answer = self._read(offset, max_bytes, leader_end, at_least_one, last_fetched_epoch)
        if is_new and answer.diverging_epoch is None:
            moved = self.leadership.fetched(
                follower, offset, log_start_offset, leader_end, broker_epoch
            )
            if self.leadership.joins(follower, log.high_watermark):
                self._propose_isr((*self.isr, broker_id))
            if moved:
                self._advance_high_watermark()
            if len(self._deletions):
                self._deletions.passed(self.low_watermark() + 1)
        return answer

    def maybe_shrink_isr(self) -> None:
        """Have followers taken out of the ISR that have been behind for too long."""
        if self.leader != self.node_id:
            return
        if len(self.isr) > 1:
            late = self.leadership.out_of_sync(self.log.log_end_offset)
            if late:
                self._propose_isr(tuple(member for member in self.isr if member not in late))
        if self.leadership.followers and self.log.high_watermark < self.log.log_end_offset:
            # One that was about to join counts no more when it has fallen behind or is fenced.
            self._advance_high_watermark()

    def _propose_isr(self, isr: tuple[int, ...]) -> None:
        proposed = self.leadership.propose(isr, self.leader_epoch, self.partition_epoch)
        self._outside.propose(self, proposed)

    def isr_altered(
        self, proposed: ProposedIsr, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]
    ) -> None:
        """The controller has answered a proposal; an answer that comes too late is ignored."""
        if self.leadership.in_sync.proposed is not proposed:
            return
        outside = self._outside
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            outside.failed_isr_updates.count += 1
            return
        self.partition_epoch = partition_epoch
        self.leadership.in_sync.commit(isr)
        self._count_in_sync()
        if proposed.is_expansion:
            outside.isr_expands.count += 1
        else:
            outside.isr_shrinks.count += 1
        self._advance_high_watermark()

    def isr_refused(self, proposed: ProposedIsr, *, is_unchanged: bool) -> bool:
        """The controller refuses; whether the proposal still stands.

        ``is_unchanged`` when it says for certain that nothing was changed. Otherwise the proposal
        stays until the metadata log decides.
        """
        if self.leadership.in_sync.proposed is not proposed:
            return False
        self._outside.failed_isr_updates.count += 1
        if is_unchanged:
            self.leadership.in_sync.take_back()
            self._advance_high_watermark()
            return False
        return True

    def low_watermark(self) -> int:
        """Below it no replica that is alive has records."""
        return self.leadership.least_start_offset(self.log.log_start_offset)

    def when_deleted(self, offset: int, tell: Acknowledge, is_over: IsOver) -> None:
        """Tell when no replica that is alive has records below ``offset`` any more."""
        if self.low_watermark() >= offset:
            self._deletions.tell(tell, None)
        else:
            self._deletions.add(offset, tell, is_over)

    # Following

    def append_as_follower(
        self,
        data: Buffer,
        leader_high_watermark: int,
        leader_log_start_offset: int,
        now_ms: int,
    ) -> AppendInfo | None:
        """Append what the leader sent, perhaps nothing, and follow its watermarks."""
        log = self.log
        info = None
        if data:
            info = log.append_as_follower(data, now_ms=now_ms, leader_epoch=self.leader_epoch)
            if info.is_flush_due:
                self._flush.begin(log)
        before = log.high_watermark
        if leader_high_watermark > before and log.log_end_offset > before:
            log.set_high_watermark(leader_high_watermark)
            self.readers.high_watermark_moved(log, before)
        if leader_log_start_offset > log.log_start_offset:
            log.delete_records_before(min(leader_log_start_offset, log.high_watermark))
        return info

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Forget everything from ``offset`` on; whether there was something."""
        assert not self.is_leader
        return self.log.truncate_to(offset, now_ms)

    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Forget everything; the next record is the one at ``offset``."""
        assert not self.is_leader
        self.log.truncate_fully_and_start_at(offset, now_ms, log_start_offset)

    def start_behind_remote(self, leader_local_start: int, epoch: int) -> bool:
        """Begin behind what only the remote store has; whether there is such a store."""
        assert not self.is_leader
        return self._outside.start_behind_remote(self, leader_local_start, epoch)

    # Appending

    def append(self, frame: memoryview, start: int, end: int, acks: int, now_ms: int) -> AppendInfo:
        self.check_append(acks)
        appended = self.log.append_as_leader(
            frame, start, end, leader_epoch=self.leader_epoch, now_ms=now_ms
        )
        self._appended(appended.size, appended.record_count, appended.is_flush_due)
        return appended

    def check_append(self, acks: int) -> None:
        """Refuse an append of a client that does not belong here, or would not be safe enough."""
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        if acks == -1 and self.is_under_min_isr:
            raise self._not_enough_replicas()

    def append_together(self, batches: list[Batch], now_ms: int) -> list[Outcome]:
        """What :meth:`append` says of each batch that was checked; they are written together."""
        outcomes = self.log.append_together(batches, self.leader_epoch, now_ms)
        size = records = 0
        is_flush_due = False
        for outcome in outcomes:
            if isinstance(outcome, AppendInfo):
                size += outcome.size
                records += outcome.record_count
                is_flush_due = is_flush_due or outcome.is_flush_due
        if size:
            self._appended(size, records, is_flush_due)
        return outcomes

    def append_transactional(
        self,
        frame: memoryview,
        start: int,
        end: int,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> AppendInfo:
        """Append a client's batch of a transaction; ``guard`` if :meth:`verify` gave one."""
        header = read_header(frame, start)
        self.verifications.check(self.log.producers, header, guard)
        appended = self.append(frame, start, end, acks, now_ms)
        self.verifications.end(header.producer_id)
        return appended

    def verify(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """A guard to ask the coordinator with; None when the transaction is known to be open."""
        return self.verifications.begin(
            self.log.producers,
            producer_id,
            epoch,
            sequence,
            supports_epoch_bump=supports_epoch_bump,
        )

    def append_records(
        self, batch: bytes, origin: AppendOrigin, now_ms: int, *, transaction_version: int = 0
    ) -> int:
        """Append what this broker itself has to say, as for acks=all; return its last offset."""
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        if self.is_under_min_isr:
            raise self._not_enough_replicas()
        info = self.log.append_as_leader(
            bytearray(batch),
            0,
            len(batch),
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            transaction_version=transaction_version,
        )
        self._appended(info.size, info.record_count, info.is_flush_due)
        return info.last_offset

    def append_verified(self, batch: bytes, now_ms: int, guard: VerificationGuard | None) -> int:
        """Append what a coordinator writes within a client's transaction."""
        header = read_header(batch)
        self.verifications.check(self.log.producers, header, guard)
        last_offset = self.append_records(batch, AppendOrigin.COORDINATOR, now_ms)
        self.verifications.end(header.producer_id)
        return last_offset

    def append_marker(self, batch: bytes, now_ms: int, transaction_version: int) -> int:
        """Append the marker that ends a transaction; return its offset."""
        offset = self.append_records(
            batch, AppendOrigin.COORDINATOR, now_ms, transaction_version=transaction_version
        )
        self.verifications.end(read_header(batch).producer_id)
        return offset

    def _not_enough_replicas(self) -> NotEnoughReplicas:
        return NotEnoughReplicas(
            f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
            f"min.isr requirement of {self.effective_min_isr} for partition "
            f"{self.topic}-{self.index}"
        )

    def _appended(self, size: int, records: int, is_flush_due: bool) -> None:
        """Records came to this leader: move the high watermark and tell all that wait."""
        log, counts = self.log, self.counts
        counts.messages_in += records
        counts.bytes_in += size
        if is_flush_due:
            self._flush.begin(log)
        if self.leadership.followers or self._flush.is_under_way:
            self.readers.appended(size)
            self._advance_high_watermark()
            return
        if log.high_watermark < log.log_end_offset and not self.is_under_min_isr:
            log.set_high_watermark(log.log_end_offset)
        self.readers.seen_at_once(log, size)

    def _advance_high_watermark(self) -> None:
        """Move the high watermark to where the ISR is."""
        if self.is_under_min_isr:
            return
        log = self.log
        before = log.high_watermark
        reached = self.leadership.least_end_offset(log.log_end_offset)
        if self._flush.is_under_way:
            reached = min(reached, log.due_offset)
        if reached > before:
            log.set_high_watermark(reached)
            self.readers.high_watermark_moved(log, before)
            self._acknowledgements.passed(reached)

    def acknowledge(self, last_offset: int, tell: Acknowledge, is_over: IsOver = never) -> None:
        """Tell when the high watermark is above ``last_offset``, or this broker leads no more.

        Asked when the append is made, so that no other's records count.
        """
        if self.leader != self.node_id:
            self._acknowledgements.tell(tell, NotLeaderOrFollower())
        elif self.log.high_watermark > last_offset:
            self._acknowledgements.tell(tell, None)
        else:
            self._acknowledgements.add(last_offset, tell, is_over)

    def when_flushed(self, last_offset: int, tell: Acknowledge, is_over: IsOver = never) -> None:
        """Tell when no flush is due up to ``last_offset``, or that this broker leads no more."""
        self._flush.wait(self.log, last_offset, tell, is_over)

    def _flushed(self) -> None:
        if self.leader == self.node_id:
            self._advance_high_watermark()
        self._flush.settle(self.log)

    def moved_to(self, log: Log) -> None:
        """``log``, in another directory, has the records from now on."""
        self.log = log
        self._flushed()  # it has at least as much on disk; what is due is asked of its own disk

    def let_go(self) -> None:
        """One that was to be told of something waits no more: its time is over."""
        for waiting in (self._acknowledgements, self._flush, self._deletions):
            waiting.let_go()

    def when_committed(self, last_offset: int) -> Promise[None]:
        """Promise that every in-sync replica has ``last_offset``; or NOT_LEADER_OR_FOLLOWER."""
        self.acknowledge(last_offset, partial(settle, promise := Promise[None](self._outside.turn)))
        return promise

    # Reading

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare the epoch that a client believes in with ours; -1 is one that does not say."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch

    def read(
        self,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        isolation_level: int,
        *,
        at_least_one: bool,
        last_fetched_epoch: int = NO_EPOCH,
        from_leader_only: bool = True,
    ) -> FetchedPartition:
        """Read for a consumer: what is committed, as far as this broker knows."""
        if current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
        if from_leader_only and self.leader != self.node_id:
            raise NotLeaderOrFollower
        log = self.log
        if isolation_level != READ_COMMITTED:
            return self._read(
                offset, max_bytes, log.high_watermark, at_least_one, last_fetched_epoch
            )
        answer = self._read(
            offset, max_bytes, log.last_stable_offset, at_least_one, last_fetched_epoch
        )
        answer.aborted = log.aborted_transactions(offset, answer.next_offset) if answer.size else []
        return answer

    def _read(
        self, offset: int, max_bytes: int, upper: int, at_least_one: bool, last_fetched_epoch: int
    ) -> FetchedPartition:
        log = self.log
        answer = FetchedPartition(
            self.index, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, b""
        )
        if last_fetched_epoch >= 0:
            answer.diverging_epoch = self._diverging_epoch(offset, last_fetched_epoch)
            if answer.diverging_epoch is not None:
                return answer
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise self._out_of_range(offset)
        if max_bytes < 0:
            raise ApiError(f"a limit of {max_bytes} bytes")
        if offset < upper:
            fetched = log.read(
                offset, max_bytes, upper_bound_offset=upper, at_least_one=at_least_one
            )
            if fetched.region is not None:
                answer.records = fetched.region
                answer.next_offset = fetched.next_offset
        return answer

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        log = self.log
        return OffsetOutOfRange(
            f"Received request for offset {offset} for partition {self.topic}-{self.index}, "
            f"but we only have log segments from offset {log.log_start_offset} to "
            f"{log.log_end_offset}."
        )

    def read_remote(
        self, remote_logs: RemoteLogs, offset: int, max_bytes: int, isolation_level: int
    ) -> Promise[FetchedPartition]:
        """What ``read`` would answer, of records that are no longer on this disk."""
        log = self.log
        read_committed = isolation_level == READ_COMMITTED
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        fetched: Promise[FetchedPartition] = Promise(self._outside.turn)
        asked = remote_logs.read(
            log,
            offset,
            max_bytes,
            upper_bound_offset=last_stable if read_committed else high_watermark,
            read_committed=read_committed,
        )

        def came(done: Promise[RemoteData]) -> None:
            try:
                data = done.result()
            except ApiError as error:
                fetched.fail(error)
                return
            answer = FetchedPartition(
                self.index, 0, high_watermark, last_stable, log.log_start_offset, data.records
            )
            answer.aborted = data.aborted if read_committed else None
            fetched.fulfil(answer)

        asked.when_done(came)
        return fetched

    def _diverging_epoch(self, offset: int, epoch: int) -> tuple[int, int] | None:
        """Where the reader's log, with a last record of ``epoch``, diverges from ours; or None."""
        end = self.log.end_offset_for_epoch(epoch)
        if end.epoch == NO_EPOCH:
            raise OffsetOutOfRange(f"nothing is known of leader epoch {epoch}")
        if offset < self.log.log_start_offset:
            raise self._out_of_range(offset)
        return (end.epoch, end.end_offset) if end.epoch < epoch or end.end_offset < offset else None
