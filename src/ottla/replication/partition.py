"""A partition that this broker leads: its epoch, its in-sync replicas, its high watermark.

The hot path runs through here, so it offers plain methods in place of events; they do no I/O of
their own and take ``now_ms``.

Rules:
1. The high watermark is the least log end offset of the in-sync replicas, and never goes back.
2. acks=all is refused when fewer replicas are in sync than ``min.insync.replicas``, before anything
   is written.
3. Readers are told by their epoch when they speak to the wrong leader (KIP-320).
4. A transactional batch is appended only while its transaction is known to be open (KIP-890).
"""

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
from ottla.records.batch import read_header
from ottla.records.rules import AppendOrigin
from ottla.replication.verification import VerificationGuard, Verifications
from ottla.replication.waiting import WaitingRequest
from ottla.storage.log import Log
from ottla.storage.remote import RemoteData, RemoteLogs
from ottla.storage.results import AppendInfo, FlushDue

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_EPOCH = -1


class Partition:
    __slots__ = (
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "node_id",
        "topic",
        "topic_id",
        "verifications",
        "waiting",
    )

    def __init__(self, node_id: int, topic: str, topic_id: bytes, index: int, log: Log) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.waiting: dict[WaitingRequest, None] = {}
        self.verifications = Verifications()

    def lead(self, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        """Take what the metadata log says of this partition."""
        new_epoch = leader_epoch > self.leader_epoch
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.isr = isr
        if leader == self.node_id and new_epoch:
            self.log.begin_leader_epoch(leader_epoch)
            self._advance_high_watermark()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    def append(self, frame: memoryview, start: int, end: int, acks: int, now_ms: int) -> AppendInfo:
        log = self.log
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        if acks == -1 and len(self.isr) < self.min_insync_replicas:
            raise NotEnoughReplicas(
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_insync_replicas} for partition "
                f"{self.topic}-{self.index}"
            )
        appended = log.append_as_leader(
            frame, start, end, leader_epoch=self.leader_epoch, now_ms=now_ms
        )
        self.appended(end - start)
        return appended

    def append_flushed(
        self, frame: memoryview, start: int, end: int, acks: int, now_ms: int
    ) -> AppendInfo:
        """Like :meth:`append`, and a flush that is due is done when it returns."""
        try:
            return self.append(frame, start, end, acks, now_ms)
        except FlushDue as due:
            self.log.flush(now_ms)
            self.appended(end - start)
            return due.info

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
        appended = self.append_flushed(frame, start, end, acks, now_ms)
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
        if len(self.isr) < self.min_insync_replicas:
            raise NotEnoughReplicas
        info = self.log.append_as_leader(
            bytearray(batch),
            0,
            len(batch),
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            transaction_version=transaction_version,
        )
        self.appended(len(batch))
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

    def appended(self, size: int) -> None:
        """Records came: move the high watermark and tell who waits."""
        self._advance_high_watermark()
        if self.waiting:
            for request in tuple(self.waiting):
                request.came(size)

    def _advance_high_watermark(self) -> None:
        log = self.log
        # A follower's position would hold it back here; a partition of one replica has none.
        if log.high_watermark < log.log_end_offset:
            log.set_high_watermark(log.log_end_offset)

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
    ) -> FetchedPartition:
        if current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        log = self.log
        high_watermark = log.high_watermark
        last_stable = log.last_stable_offset
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic}-{self.index}, "
                f"but we only have log segments from offset {log.log_start_offset} to "
                f"{log.log_end_offset}."
            )
        upper = last_stable if isolation_level == READ_COMMITTED else high_watermark
        answer = FetchedPartition(
            self.index, 0, high_watermark, last_stable, log.log_start_offset, b""
        )
        if isolation_level == READ_COMMITTED:
            answer.aborted = []
        if last_fetched_epoch >= 0:
            answer.diverging_epoch = self._diverging_epoch(offset, last_fetched_epoch)
            if answer.diverging_epoch is not None:
                return answer
        if max_bytes < 0:
            raise ApiError(f"a limit of {max_bytes} bytes")
        if offset < upper:
            fetched = log.read(
                offset, max_bytes, upper_bound_offset=upper, at_least_one=at_least_one
            )
            if fetched.region is not None:
                answer.records = fetched.region
                if isolation_level == READ_COMMITTED:
                    answer.aborted = log.aborted_transactions(offset, fetched.next_offset)
        return answer

    def read_remote(
        self, remote_logs: RemoteLogs, offset: int, max_bytes: int, isolation_level: int
    ) -> Promise[FetchedPartition]:
        """What ``read`` would answer, of records that are no longer on this disk."""
        log = self.log
        read_committed = isolation_level == READ_COMMITTED
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        fetched: Promise[FetchedPartition] = Promise()
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
        """Where the reader's log, whose last record is of ``epoch``, departs from ours; or None."""
        end = self.log.end_offset_for_epoch(epoch)
        if end.epoch == NO_EPOCH:
            raise OffsetOutOfRange(f"nothing is known of leader epoch {epoch}")
        return (end.epoch, end.end_offset) if end.epoch < epoch or end.end_offset < offset else None
