"""A log: the record batches of one partition, in order, on disk.

Used from one thread, the node's loop. What may run elsewhere is exactly this: ``Flush.run`` of a
flush that :meth:`Log.prepare_flush` made, ``TimeSearch.run``, ``IndexRebuild.run``, and the removal
of files that the listener was given.

Offsets, from low to high::

    log start offset <= last stable offset <= high watermark <= log end offset
    recovery point <= log end offset        what stands below the recovery point was synced

An append is checked, numbered in place and written with one call. The log has its files by
``Segments``, what is on disk by ``Flushing``, and where a record is by ``Reader``; it keeps the
offsets, what is known of producers and epochs, and refuses everything once its disk has failed.
"""

from typing import Final

from ottla.common.errors import InconsistentTopicId, OffsetOutOfRange, RecordListTooLarge
from ottla.common.identifiers import is_damaged_copy
from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import (
    BatchHeader,
    Buffer,
    MutableBuffer,
    read_header,
    set_base_offset_and_epoch,
)
from ottla.records.rules import AppendOrigin
from ottla.records.validation import numbered_batches, validate
from ottla.storage.checkpoints import PARTITION_METADATA, encode_partition_metadata
from ottla.storage.config import LogConfig, append_rules, has_remote_part
from ottla.storage.directories import LogDirFailed, LogUnavailable, Retired
from ottla.storage.files import is_disks
from ottla.storage.flush import Flush
from ottla.storage.flushing import Flushing
from ottla.storage.index_rebuild import IndexRebuild
from ottla.storage.joint_append import Batch, JointAppend, Outcome, repeated
from ottla.storage.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from ottla.storage.listener import LogListener
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX
from ottla.storage.on_disk import on_disk, on_disk_again
from ottla.storage.producer_replay import rebuild_producers, replay
from ottla.storage.producer_state import BatchMetadata, ProducerEntry
from ottla.storage.reader import Reader
from ottla.storage.recovery import OpenedLog
from ottla.storage.results import AppendInfo, FetchedData, UnexpectedAppendOffset
from ottla.storage.retention import count_to_delete
from ottla.storage.segment import Segment
from ottla.storage.time_search import TimeSearch, TimestampAndOffset
from ottla.storage.verification import Verifier, Verify

CLIENT: Final = AppendOrigin.CLIENT
NOTHING_REMOTE: Final = -1


class Log:
    """See the module. Made by ``opening``."""

    __slots__ = (
        "_flushing",
        "_listener",
        "_reader",
        "_rules",
        "_verifier",
        "config",
        "epochs",
        "failure",
        "first_unstable_offset",
        "high_watermark",
        "highest_remote_offset",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "remote_storage_enabled",
        "saved_start_offset",
        "segments",
        "successor",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self,
        opened: OpenedLog,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        listener: LogListener,
        now_ms: int,
        verify: Verify,
    ) -> None:
        self._listener = listener
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = opened.segments
        self.epochs = opened.epochs
        self.producers = opened.producers
        self.failure: OSError | None = None
        self.successor: Log | None = None
        self.truncations = 0
        """How often something was cut off its end."""
        self.log_start_offset = opened.log_start_offset
        self.saved_start_offset = 0
        """The log start as its checkpoint on disk has it, at least."""
        self.log_end_offset = opened.log_end_offset
        self.high_watermark = opened.log_start_offset
        self.highest_remote_offset = NOTHING_REMOTE
        """The last offset that a finished copy in the remote store has."""
        self.first_unstable_offset: int | None = None
        """Where the first transaction begins that is not decided, or not known to be replicated."""
        self._verifier = Verifier(self, listener, verify)
        self._reader = Reader(opened.segments, self._verifier)
        self._flushing = Flushing(opened.segments, opened.epochs, opened.recovery_point, now_ms)
        self.configure(config)
        self._find_first_unstable()

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on."""
        self.config = config
        self.remote_storage_enabled = has_remote_part(self.topic_partition.topic, config)
        self._rules = append_rules(config)
        self._flushing.records_max = config.flush_messages
        self.segments.configure(config)

    @on_disk_again
    def assign_topic_id(self, topic_id: bytes) -> None:
        """Write down whose partition this is; InconsistentTopicId if it is another's."""
        if self.topic_id is None or is_damaged_copy(self.topic_id, topic_id):
            path = f"{self.directory}/{PARTITION_METADATA}"
            self.segments.filesystem.write(path, encode_partition_metadata(topic_id))
            self.segments.wrote(path)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(f"{self.topic_partition} has another topic id on disk")

    @property
    def directory(self) -> str:
        return self.segments.directory

    # When the disk fails, or the log goes

    def failed(self, error: OSError) -> LogDirFailed:
        """What to raise; the log refuses everything from now on, and its keeper hears of it."""
        directory = self.directory.rpartition("/")[0]
        if isinstance(self.failure, Retired):
            return LogUnavailable(directory, self.failure)
        failure = LogDirFailed(directory, error)
        if self.failure is None:
            self.failure = error
            self._listener.failed(failure)
        return failure

    def refused(self, error: OSError) -> LogDirFailed:
        """What becomes of an operation of which a failure leaves nothing behind."""
        if is_disks(error):
            return self.failed(error)
        return LogUnavailable(self.directory.rpartition("/")[0], error)

    def retire(self, successor: "Log | None" = None) -> None:
        """Refuse everything from now on: the log goes, or ``successor`` has its records.

        Work for it may still be under way, or be asked for by a caller that does not know yet. It
        finds no files, and that is not the disk's fault.
        """
        self.successor = successor
        if self.failure is None:
            self.failure = Retired(f"{self.directory} was deleted or replaced")

    # Appending

    def append_as_leader(
        self,
        buffer: MutableBuffer,
        start: int,
        end: int,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Check ``buffer[start:end]``, give it its offsets, in place, and write it."""
        if self.failure is not None:
            raise self.failed(self.failure)
        append = validate(buffer, start, end, self._rules, now_ms, origin)
        if origin is not CLIENT:
            if origin is AppendOrigin.RAFT_LEADER:
                data = append.buffer[append.start : append.end]
                return self._append_numbered(data, numbered_batches(data, 0, len(data)), now_ms)
            own = append.buffer[append.start : append.end]
            self.producers.check_coordinator(own, transaction_version)
        producers = self.producers
        producer_id = append.producer_id
        if producer_id >= 0 and origin is CLIENT:
            duplicate = producers.check_client(append)
            if duplicate is not None:
                return repeated(self, duplicate, append.end - append.start)
        base_offset = self.log_end_offset
        last_offset = base_offset + append.last_offset_delta
        max_timestamp = append.max_timestamp
        start, end = append.start, append.end
        size = end - start
        segment = self.segments.active
        try:
            if not segment.active:
                self.segments.activate()
            if segment.should_roll(size, last_offset, max_timestamp, now_ms):
                segment = self.roll_for(size, base_offset, now_ms)
            if leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(leader_epoch, base_offset)
            view = append.buffer
            set_base_offset_and_epoch(view, start, base_offset, leader_epoch)
            segment.append(view[start:end], size, last_offset, max_timestamp)
        except OSError as error:
            raise self.refused(error) from error
        self.log_end_offset = producers.end_offset = last_offset + 1
        if append.is_control or append.is_transactional:
            self._replay_own(view[start:end], segment)
        elif producer_id >= 0:
            batch = BatchMetadata(
                append.last_sequence, last_offset, append.last_offset_delta, max_timestamp
            )
            producers.add_batch(producer_id, append.producer_epoch, batch, False)
        count = append.record_count
        info = AppendInfo(
            base_offset, last_offset, append.append_time, self.log_start_offset, count, size
        )
        if self._flushing.appended(base_offset, last_offset + 1, count):
            info.is_flush_due = True
        return info

    def append_together(self, batches: list[Batch], epoch: int, now_ms: int) -> list[Outcome]:
        """What :meth:`append_as_leader` says of each batch of a client; by one write."""
        return JointAppend(self, self._rules, self._flushing, epoch, now_ms).append(batches)

    @on_disk
    def _replay_own(self, batch: memoryview, segment: Segment) -> None:
        self._replay(batch, read_header(batch), segment)

    def _replay(self, batch: memoryview, header: BatchHeader, segment: Segment) -> None:
        """Take note of what a batch means for producers and transactions."""
        body = bytes(batch) if header.is_control else b""
        replay(self.producers, header, body, segment.transaction_index)
        if header.is_transactional:
            self._find_first_unstable()

    def append_as_follower(
        self, data: Buffer, *, now_ms: int, leader_epoch: int | None = None
    ) -> AppendInfo:
        """Write batches as a leader sent them; those above ``leader_epoch`` are not its own."""
        if self.failure is not None:
            raise self.failed(self.failure)
        view = memoryview(data)
        found = numbered_batches(view, 0, len(view))
        if leader_epoch is not None:
            for number, (_, header) in enumerate(found):
                if header.partition_leader_epoch > leader_epoch:
                    del found[number:]
                    break
        size = sum([header.size for _, header in found])
        if size > self.segments.limits.size_max and len(found) > 1:
            return self._append_one_by_one(view, found, now_ms)
        return self._append_numbered(view[:size], found, now_ms)

    def _append_one_by_one(
        self, data: memoryview, found: list[tuple[int, BatchHeader]], now_ms: int
    ) -> AppendInfo:
        """Several segments' worth, of a leader whose segments are larger than ours."""
        infos = [
            self._append_numbered(data[start : start + header.size], [(0, header)], now_ms)
            for start, header in found
        ]
        first = infos[0]
        first.last_offset = infos[-1].last_offset
        first.record_count = sum([info.record_count for info in infos])
        first.size = sum([info.size for info in infos])
        first.is_flush_due = self.is_flush_due
        return first

    def _append_numbered(
        self, data: memoryview, found: list[tuple[int, BatchHeader]], now_ms: int
    ) -> AppendInfo:
        """Write batches that have their offsets, ``found`` in ``data``, which was checked."""
        if not found:
            offset = self.log_end_offset
            return AppendInfo(offset, offset - 1, -1, self.log_start_offset, 0, 0)
        first, last = found[0][1], found[-1][1]
        if first.base_offset < self.log_end_offset:
            raise UnexpectedAppendOffset(first.base_offset, last.last_offset, self.log_end_offset)
        try:
            segment = self.segments.active
            if not segment.active:
                self.segments.activate()
            newest = max([header.max_timestamp for _, header in found])
            if segment.should_roll(len(data), last.last_offset, newest, now_ms):
                overflows = last.last_offset - self.log_end_offset > RELATIVE_OFFSET_MAX
                base_offset = first.base_offset if overflows else self.log_end_offset
                segment = self.roll_for(len(data), base_offset, now_ms)
            for _, header in found:
                if header.partition_leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            segment.append_several(
                data,
                [(header.size, header.last_offset, header.max_timestamp) for _, header in found],
            )
            self.log_end_offset = last.last_offset + 1
            for start, header in found:
                if header.producer_id >= 0:
                    self._replay(data[start : start + header.size], header, segment)
        except OSError as error:
            is_written = self.log_end_offset > last.last_offset
            raise (self.failed(error) if is_written else self.refused(error)) from error
        self.producers.end_offset = self.log_end_offset
        count = sum([header.record_count for _, header in found])
        info = AppendInfo(
            first.base_offset, last.last_offset, -1, self.log_start_offset, count, len(data)
        )
        if self._flushing.appended(first.base_offset, self.log_end_offset, count):
            info.is_flush_due = True
        return info

    def roll_for(self, size: int, base_offset: int, now_ms: int) -> Segment:
        """Begin a new segment for an append of ``size`` bytes."""
        size_max = self.segments.limits.size_max
        if size > size_max:
            raise RecordListTooLarge(f"{size} bytes are more than a segment of {size_max} holds")
        return self._roll(base_offset, now_ms)

    @on_disk_again
    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, unless the active one is still empty."""
        self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self.segments.active
        if active.size == 0 and active.base_offset == base_offset:
            return active
        segment = self.segments.roll(base_offset, now_ms, self.producers)
        self._verifier.closed(active)
        self._listener.rolled()
        return segment

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, at_least_one: bool
    ) -> FetchedData:
        """Whole batches from the one that has ``offset`` on, none at or above the upper bound.

        At most ``max_bytes``, or one batch if the first is larger and ``at_least_one``.
        """
        if self.failure is not None:
            raise self.failed(self.failure)
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {self.log_start_offset} to {end_offset}"
            )
        if offset >= upper_bound_offset:
            return FetchedData(None, offset, offset)
        try:
            return self._reader.read(
                offset, max_bytes, upper_bound_offset, end_offset, at_least_one
            )
        except OSError as error:
            raise self.refused(error) from error

    @on_disk_again
    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """The bytes of the batches from ``offset`` to the end of the log, at least one of them.

        OffsetNotAvailable, as in :meth:`read`, while an index is made anew.
        """
        end = self.log_end_offset
        fetched = self.read(offset, max_bytes, upper_bound_offset=end, at_least_one=True)
        return b"" if fetched.region is None else fetched.region.read()

    @on_disk_again
    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of those that have records between the offsets."""
        is_compacted = "compact" in self.config.cleanup_policy
        return self._reader.aborted_transactions(offset, upper_bound_offset, is_compacted)

    @on_disk_again
    def next_time_search(
        self, timestamp: int, before: TimeSearch | None = None
    ) -> TimeSearch | None:
        """Where a record that is not older than ``timestamp`` is to be looked for next.

        In the segment that now has the offsets behind what ``before`` has searched; None when
        nothing is left. The search may run elsewhere.
        """
        start_offset = self.log_start_offset
        if before is not None:
            if before.next_offset is None:
                return None
            start_offset = max(start_offset, before.next_offset)
        return self._reader.next_time_search(timestamp, start_offset)

    @on_disk_again
    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all."""
        return self._reader.offset_of_max_timestamp()

    @on_disk_again
    def prepare_rebuild(self, segment: Segment) -> IndexRebuild | None:
        """The indexes of a closed segment, to be made anew elsewhere; None if it has gone."""
        return self._reader.prepare_rebuild(segment, self.truncations)

    @on_disk_again
    def rebuilt(self, segment: Segment, rebuild: IndexRebuild, error: OSError | None) -> None:
        """They were; if they are not those of the batches now, a reader asks again."""
        if isinstance(error, FileNotFoundError) and segment.path != rebuild.segment.path:
            return  # the directory of the log has another name
        if error is not None:
            raise error
        self._reader.rebuilt(segment, rebuild, self.truncations)

    # Offsets

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    @property
    def local_log_start_offset(self) -> int:
        """Records below lie in the remote store alone."""
        return max(self.log_start_offset, self.segments[0].base_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided, and the decision replicated."""
        first = self.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if first is None or first > high_watermark else first

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``; -1 if nobody knows."""
        return self.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        if epoch != self.epochs.latest_epoch:
            self._check_epoch_behind(epoch)
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @on_disk_again
    def _check_epoch_behind(self, epoch: int) -> None:
        self._verifier.check_epoch_behind(epoch)

    def size(self) -> int:
        return self.segments.size()

    def set_high_watermark(self, offset: int) -> None:
        """Bounded by the start and the end of the log."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        if self.producers.unreplicated:
            self.producers.replicated_to(self.high_watermark)
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        first = self.producers.first_unstable_offset
        self.first_unstable_offset = None if first is None else max(first, self.log_start_offset)

    def set_highest_remote_offset(self, offset: int) -> None:
        """Segments up to ``offset`` have finished copies."""
        self.highest_remote_offset = offset

    def begin_leader_epoch(self, epoch: int) -> None:
        """This broker leads from here on, perhaps without a record yet."""
        self.epochs.assign(epoch, self.log_end_offset)

    def follow_epochs(self, epochs: LeaderEpochs) -> None:
        """Take on the epochs that have begun without a record yet."""
        for entry in epochs.entries:
            if entry.epoch > self.epochs.latest_epoch:
                self.epochs.assign(entry.epoch, entry.start_offset)

    def active_producers(self, now_ms: int) -> list[ProducerEntry]:
        """Those that have not been idle for too long."""
        self.producers.remove_expired(now_ms)
        return list(self.producers.producers.values())

    # Giving up

    @on_disk
    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Forget everything from ``offset`` on; whether there was something.

        The log then ends at ``offset`` or, if that was within a batch, before this batch.
        """
        if offset >= self.log_end_offset:
            # An epoch that began at the end without a record may contradict the leader.
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self.segments[0].base_offset:
            self._start_over_at(offset, now_ms, None)
            return True
        self._flushing.cancel()
        self._listener.truncating(offset)
        offset, is_whole = self.segments.truncate_to(offset, now_ms)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.epochs.truncate_from_end(offset)
        self._ends_at(offset, now_ms)
        if not is_whole:
            # What is damaged stays, but behind it a later start might not find what comes.
            self._roll(offset, now_ms)
        return True

    @on_disk
    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Forget everything; the next record gets ``offset``."""
        self._start_over_at(offset, now_ms, log_start_offset)

    def _start_over_at(self, offset: int, now_ms: int, log_start_offset: int | None) -> None:
        self._delete_all()
        self.segments.begin(offset, now_ms)
        self.segments.sync_names()
        self.epochs.clear()
        self.segments.snapshots.remove_all()
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._ends_at(offset, now_ms)

    @on_disk
    def start_behind_remote(
        self, offset: int, epochs: list[EpochEntry], producers: bytes | None, now_ms: int
    ) -> None:
        """Forget everything; the next record gets ``offset``, and the remote store has the rest.

        ``epochs`` and the snapshot of ``producers`` tell of that. They are on disk before the log
        ends there: after a crash in between it is still seen that they are missing.
        """
        self._delete_all()
        self.epochs.clear()
        self.segments.snapshots.remove_all()
        for entry in epochs:
            self.epochs.assign(entry.epoch, entry.start_offset)
        self._flushing.save_epochs()
        if producers is not None:
            self.segments.snapshots.put(offset, producers)
        self.segments.begin(offset, now_ms)
        self.segments.sync_names()
        self.log_start_offset = min(self.log_start_offset, offset)
        self._ends_at(offset, now_ms)
        self.high_watermark = offset  # nothing is copied that is not committed

    def _delete_all(self) -> None:
        self._flushing.cancel()
        self._listener.truncating(self.segments[0].base_offset)
        self.segments.delete_all()

    def _ends_at(self, offset: int, now_ms: int) -> None:
        """Everything behind ``offset`` is gone: bring state, disk and checkpoint to that."""
        self.log_end_offset = offset
        self.truncations += 1
        self._flushing.truncated(offset)
        self._reader.forget_places()
        self.segments.snapshots.keep_between(self.log_start_offset, offset)
        rebuild_producers(
            self.producers,
            self.segments,
            start_offset=self.log_start_offset,
            end_offset=offset,
            now_ms=now_ms,
        )
        self.high_watermark = min(self.high_watermark, offset)
        self.saved_start_offset = min(self.saved_start_offset, self.log_start_offset)
        # What comes in its place is not what was copied.
        self.highest_remote_offset = min(self.highest_remote_offset, offset - 1)
        self._find_first_unstable()
        self._flushing.save_epochs()
        self.segments.are_names_unsynced = True
        self._listener.recovery_point_lowered()

    @on_disk
    def delete_records_before(self, offset: int) -> bool:
        """Let the log begin at ``offset``, at most the high watermark; whether it moved.

        The segments before it go later.
        """
        high_watermark = self.high_watermark
        if offset > high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is above the high watermark {high_watermark}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.started_at(offset)
        self.segments.snapshots.started_at(offset)
        self._find_first_unstable()
        return True

    @on_disk_again
    def delete_old_segments(self, now_ms: int) -> int:
        """Delete what retention no longer keeps; how many segments.

        What is being copied to the remote store goes from here when the copy is finished, and the
        log still begins where its remote part does.
        """
        is_copied = self.remote_storage_enabled and not self.config.remote_log_copy_disable
        count = count_to_delete(self, self.config, is_copied=is_copied, now_ms=now_ms)
        if count:
            if count == len(self.segments):
                self._roll(self.log_end_offset, now_ms)
            if not is_copied:
                self.delete_records_before(self.segments[count].base_offset)
            self.segments.delete(list(self.segments)[:count])
            self._reader.forget_places()
        return count

    @on_disk
    def replace_segments(self, old: list[Segment]) -> None:
        """Let what was cleaned of closed segments stand for them."""
        self._verifier.closed(self.segments.replace(old))
        self._reader.forget_places()

    # Flushing and closing

    @property
    def recovery_point(self) -> int:
        """What stands below was synced."""
        return self._flushing.recovery_point

    @property
    def due_offset(self) -> int:
        """Nobody may hear of records from here on before a flush (``flush.messages``)."""
        return self._flushing.due_offset

    @property
    def last_flush_ms(self) -> int:
        return self._flushing.last_flush_ms

    @property
    def is_flush_due(self) -> bool:
        return self._flushing.is_due

    def is_flush_overdue(self, now_ms: int) -> bool:
        """Whether it was not flushed for as long as ``flush.ms`` allows."""
        return self._flushing.is_overdue(now_ms, self.config.flush_ms, self.log_end_offset)

    @on_disk_again
    def prepare_flush(self, up_to: int | None = None) -> Flush | None:
        """What must be synced so that the log is safe up to an offset; None if it is already."""
        return self._flushing.prepare(self.log_end_offset if up_to is None else up_to)

    def flushed(self, flush: Flush, now_ms: int, error: OSError | None = None) -> None:
        """A flush was run; with an error of the disk nobody knows what it did."""
        if error is not None:
            self._flushing.failed(flush, error)
            raise self.refused(error) from error
        self._flushing.flushed(flush, now_ms, self.log_end_offset)

    @on_disk
    def flush(self, now_ms: int, up_to: int | None = None) -> None:
        """Have everything below ``up_to`` on disk when this returns; see ``Flushing.flush``."""
        self._flushing.flush(up_to, now_ms, self.log_end_offset)

    @property
    def is_dirty(self) -> bool:
        """Whether a clean stop has something to write."""
        return self._flushing.is_dirty(self.log_end_offset)

    @on_disk
    def close(self, now_ms: int) -> None:
        """Leave everything on disk as a clean stop does."""
        self.segments.write_out(self.producers)
        self._flushing.save_epochs()
        self._flushing.cancel()
        self._flushing.flush(None, now_ms, self.log_end_offset)
        self.abandon()

    @on_disk
    def prepare_close(self) -> str | None:
        """Like :meth:`close`, without a sync: the keeper of many logs syncs once for them all.

        Between that and :meth:`closed` a file that is returned is to be renamed, off its ``.tmp``.
        """
        self.segments.write_out(self.producers)
        return self._flushing.write_epochs_aside()

    def closed(self) -> None:
        """Everything that :meth:`prepare_close` wrote is on disk."""
        self._flushing.closed(self.log_end_offset)
        self.abandon()

    @on_disk
    def rename_directory(self, name: str) -> None:
        """Move to another name in the same log directory."""
        self._flushing.cancel()
        self.segments.move_to(f"{self.directory.rpartition('/')[0]}/{name}")

    def abandon(self) -> None:
        """Let go of all files without writing."""
        self.segments.abandon()
        self._reader.forget_places()
