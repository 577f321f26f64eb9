"""A log: the record batches of one partition, in order, on disk.

Used from one thread, the node's loop. What may run elsewhere is exactly this: ``Flush.run`` of a
flush that :meth:`Log.prepare_flush` made, and the removal of files that the listener was given.

Offsets, from low to high::

    log start offset <= last stable offset <= high watermark <= log end offset
    recovery point <= log end offset        what stands below the recovery point was synced

An append is checked, numbered in place and written with one call.
"""

from typing import Final

from ottla.common.chance import Chance
from ottla.common.errors import InconsistentTopicId, RecordListTooLarge
from ottla.common.identifiers import is_damaged_copy
from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import (
    BatchHeader,
    Buffer,
    MutableBuffer,
    read_header,
    set_base_offset_and_epoch,
)
from ottla.records.control import read_transaction_marker
from ottla.records.record import iterate
from ottla.records.rules import AppendOrigin
from ottla.records.validation import numbered_batches, validate
from ottla.storage import replacement, truncation
from ottla.storage.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    decode_partition_metadata,
    encode_epochs,
    encode_partition_metadata,
)
from ottla.storage.config import LogConfig, append_rules, has_remote_part
from ottla.storage.directories import LogDirFailed, LogUnavailable
from ottla.storage.durable_log import DurableLog
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.listener import LogListener, StandsAlone
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_state import BatchMetadata, ProducerEntry
from ottla.storage.readable_log import on_disk, on_disk_again
from ottla.storage.recovery import LogLoader, OpenedLog, replay
from ottla.storage.results import AppendInfo, UnexpectedAppendOffset
from ottla.storage.segment import Segment, SegmentLimits
from ottla.storage.segments import activate, begin
from ottla.storage.transaction_witnesses import check_transaction_index
from ottla.storage.verification import Verify

CLIENT: Final = AppendOrigin.CLIENT
PRODUCER_EXPIRATION_MS: Final = 86_400_000
OPEN_FILES_ALONE: Final = 16


class Log(DurableLog):
    """See the module. Made by :meth:`open`."""

    __slots__ = (
        "_chance",
        "_flush_messages",
        "_limits",
        "_rules",
        "config",
        "producers",
        "remote_storage_enabled",
        "snapshots",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        opened: OpenedLog,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        open_files: OpenFiles,
        listener: LogListener,
        chance: Chance | None,
        now_ms: int,
        verify: Verify,
    ) -> None:
        super().__init__(
            filesystem, directory, opened.segments, opened.epochs, listener, verify, open_files
        )
        self._chance = chance
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.producers = opened.producers
        self.snapshots = opened.snapshots
        self.log_start_offset = opened.log_start_offset
        self.log_end_offset = opened.log_end_offset
        self.recovery_point = opened.recovery_point
        self.high_watermark = opened.log_start_offset
        self.last_flush_ms = now_ms
        self.configure(config)
        self._find_first_unstable()

    @staticmethod
    def open(
        filesystem: Filesystem,
        directory: str,
        *,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = True,
        may_have_gaps: bool = False,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        open_files: OpenFiles | None = None,
        listener: LogListener | None = None,
        chance: Chance | None = None,
        verify: Verify = Verify.ONCE,
    ) -> "Log":
        """Open the log in ``directory``, or make one there."""
        try:
            is_new = not filesystem.is_directory(directory)
            if is_new:
                filesystem.make_directory(directory)
            if open_files is None:
                open_files = OpenFiles(OPEN_FILES_ALONE, is_urgent=True)
            opened = LogLoader(
                filesystem,
                directory,
                limits=segment_limits(config, chance),
                open_files=open_files,
                producer_expiration_ms=producer_expiration_ms,
                now_ms=now_ms,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean_shutdown=clean_shutdown,
                may_have_gaps=may_have_gaps or "compact" in config.cleanup_policy,
                has_remote_part=has_remote_part(topic_partition.topic, config),
            ).load()
            log = Log(
                filesystem,
                directory,
                opened,
                topic_partition=topic_partition,
                topic_id=None if is_new else read_topic_id(filesystem, directory),
                config=config,
                open_files=open_files,
                listener=StandsAlone(filesystem) if listener is None else listener,
                chance=chance,
                now_ms=now_ms,
                verify=verify,
            )
            if is_new:
                filesystem.open(f"{directory}/{LEADER_EPOCHS}", create=True).close()
            if topic_id is not None:
                log.assign_topic_id(topic_id)
        except OSError as error:
            failed = LogDirFailed if is_disks(error) else LogUnavailable
            raise failed(directory.rpartition("/")[0], error) from error
        else:
            return log

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on."""
        self.config = config
        self.remote_storage_enabled = has_remote_part(self.topic_partition.topic, config)
        self._rules = append_rules(config)
        self._flush_messages = config.flush_messages
        self._limits = segment_limits(config, self._chance)
        self._active.size_max = self._limits.size_max
        self._active.age_max_ms = self._limits.age_max_ms

    @on_disk_again
    def assign_topic_id(self, topic_id: bytes) -> None:
        """Write down whose partition this is; InconsistentTopicId if it is another's."""
        if self.topic_id is None or is_damaged_copy(self.topic_id, topic_id):
            path = f"{self.directory}/{PARTITION_METADATA}"
            self._filesystem.write(path, encode_partition_metadata(topic_id))
            self._unsynced_paths.append(path)
            self._unsynced_directories = True
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(f"{self.topic_partition} has another topic id on disk")

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
            raise self._failed(self.failure)
        append = validate(buffer, start, end, self._rules, now_ms, origin)
        if origin is not CLIENT:
            if origin is AppendOrigin.RAFT_LEADER:
                data = append.buffer[append.start : append.end]
                return self._append_numbered(data, numbered_batches(data, 0, len(data)), now_ms)
            self._check_coordinator(append.buffer[append.start : append.end], transaction_version)
        producers = self.producers
        producer_id = append.producer_id
        if producer_id >= 0 and origin is CLIENT:
            duplicate = producers.check_client(append)
            if duplicate is not None:
                return self._duplicate(duplicate, append.end - append.start)
        base_offset = self.log_end_offset
        last_offset = base_offset + append.last_offset_delta
        max_timestamp = append.max_timestamp
        start, end = append.start, append.end
        size = end - start
        segment = self._active
        try:
            if not segment.active:
                activate(segment)
            if segment.should_roll(size, last_offset, max_timestamp, now_ms):
                segment = self._roll_for(size, base_offset, now_ms)
            if leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(leader_epoch, base_offset)
            view = append.buffer
            set_base_offset_and_epoch(view, start, base_offset, leader_epoch)
            segment.append(view[start:end], size, last_offset, max_timestamp)
        except OSError as error:
            raise self._refused(error) from error
        self.log_end_offset = producers.end_offset = last_offset + 1
        if append.is_control or append.is_transactional:
            self._replay_own(view[start:end], segment)
        elif producer_id >= 0:
            batch = BatchMetadata(
                append.last_sequence, last_offset, append.last_offset_delta, max_timestamp
            )
            producers.add_batch(producer_id, append.producer_epoch, batch, False)
        count = append.record_count
        self.unflushed_records += count
        info = AppendInfo(
            base_offset, last_offset, append.append_time, self.log_start_offset, count, size
        )
        if self.unflushed_records >= self._flush_messages:
            self._flush_from(base_offset)
            info.is_flush_due = True
        return info

    def _duplicate(self, batch: BatchMetadata, size: int) -> AppendInfo:
        count = batch.offset_delta + 1
        info = AppendInfo(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp,
            self.log_start_offset,
            count,
            size,
        )
        info.is_duplicate = True
        info.is_flush_due = batch.last_offset >= self.due_offset
        return info

    def _check_coordinator(self, batch: memoryview, transaction_version: int) -> None:
        """Coordinators write markers and offsets; they keep no sequences."""
        header = read_header(batch)
        if header.producer_id < 0:
            return
        if header.is_control:
            marker = read_transaction_marker(iterate(batch)[0])
            self.producers.check_marker(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                transaction_version,
            )
        else:
            self.producers.check_epoch(header.producer_id, header.producer_epoch)
            self.producers.check_transactional(header.producer_id, header.is_transactional)

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
            raise self._failed(self.failure)
        view = memoryview(data)
        found = numbered_batches(view, 0, len(view))
        if leader_epoch is not None:
            for number, (_, header) in enumerate(found):
                if header.partition_leader_epoch > leader_epoch:
                    del found[number:]
                    break
        size = sum([header.size for _, header in found])
        if size > self._limits.size_max and len(found) > 1:
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
        first, last = infos[0], infos[-1]
        first.last_offset = last.last_offset
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
            segment = self._active
            if not segment.active:
                activate(segment)
            newest = max([header.max_timestamp for _, header in found])
            if segment.should_roll(len(data), last.last_offset, newest, now_ms):
                overflows = last.last_offset - self.log_end_offset > RELATIVE_OFFSET_MAX
                base_offset = first.base_offset if overflows else self.log_end_offset
                segment = self._roll_for(len(data), base_offset, now_ms)
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
            raise (self._failed(error) if is_written else self._refused(error)) from error
        self.producers.end_offset = self.log_end_offset
        count = sum([header.record_count for _, header in found])
        self.unflushed_records += count
        info = AppendInfo(
            first.base_offset, last.last_offset, -1, self.log_start_offset, count, len(data)
        )
        if self.unflushed_records >= self._flush_messages:
            self._flush_from(first.base_offset)
            info.is_flush_due = True
        return info

    def _roll_for(self, size: int, base_offset: int, now_ms: int) -> Segment:
        if size > self._limits.size_max:
            raise RecordListTooLarge(
                f"{size} bytes are more than a segment of {self._limits.size_max} holds"
            )
        return self._roll(base_offset, now_ms)

    @on_disk_again
    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, unless the active one is still empty."""
        self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self._active
        if active.size == 0 and active.base_offset == base_offset:
            return active
        if not active.active:
            activate(active)
        active.roll()
        self._verifier.closed(active)
        self.producers.end_offset = base_offset
        self._take_snapshot()
        segment = self._begin_segment(base_offset, now_ms)
        self._listener.rolled()
        return segment

    def _take_snapshot(self) -> None:
        path = self.snapshots.take(self.producers)
        if path is not None:
            self._unsynced_paths.append(path)
            self._unsynced_directories = True

    def _begin_segment(self, base_offset: int, now_ms: int) -> Segment:
        self._limits = segment_limits(self.config, self._chance)
        segment = self._new_segment(base_offset, now_ms)
        begin(segment)
        self._unsynced_directories = True
        self.segments.add(segment)
        self._active = segment
        return segment

    def _new_segment(self, base_offset: int, created_ms: int = 0) -> Segment:
        segment = Segment(
            self._filesystem,
            self.directory,
            base_offset,
            limits=self._limits,
            open_files=self._open_files,
            created_ms=created_ms,
        )
        segment.on_doubt = self._listener.indexes_doubted
        return segment

    # Offsets

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

    def _check_transaction_index(self, segment: Segment) -> None:
        if self._verifier.is_on and "compact" not in self.config.cleanup_policy:
            check_transaction_index(segment, self.segments, self.snapshots)
        segment.transaction_index.is_trusted = True

    # Giving up

    @on_disk
    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Forget everything from ``offset`` on; whether there was something."""
        return truncation.truncate_to(self, offset, now_ms)

    @on_disk
    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Forget everything; the next record gets ``offset``."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms, log_start_offset)

    @on_disk
    def start_behind_remote(
        self, offset: int, epochs: list[EpochEntry], producers: bytes | None, now_ms: int
    ) -> None:
        """Forget everything; the next record gets ``offset``, and the remote store has the rest."""
        truncation.start_behind_remote(self, offset, epochs, producers, now_ms)

    @on_disk
    def delete_records_before(self, offset: int) -> bool:
        """Let the log begin at ``offset``, at most the high watermark; whether it moved."""
        return truncation.delete_records_before(self, offset)

    @on_disk_again
    def delete_old_segments(self, now_ms: int) -> int:
        """Delete what retention no longer keeps; how many segments."""
        return truncation.delete_old_segments(self, now_ms)

    @on_disk
    def replace_segments(self, old: list[Segment]) -> None:
        """Let what was cleaned of closed segments stand for them; see ``replacement``."""
        replacement.replace_segments(self, old)

    # Flushing and closing

    @property
    def is_dirty(self) -> bool:
        """Whether a clean stop has something to write."""
        return (
            self._active.active
            or self.epochs.dirty
            or bool(self._unsynced_paths)
            or self.recovery_point < self.log_end_offset
        )

    @on_disk
    def close(self, now_ms: int) -> None:
        """Leave everything on disk as a clean stop does."""
        self._write_out()
        self._save_epochs()
        self._cancel_flush()
        self.flush(now_ms)
        self.abandon()

    def _write_out(self) -> None:
        """Write what is only in memory, as files of a closed log."""
        active = self._active
        if active.active:
            active.roll()
            self._unsynced_paths += active.index_paths()
            self._take_snapshot()

    @on_disk
    def prepare_close(self) -> str | None:
        """Like :meth:`close`, without a sync: the keeper of many logs syncs once for them all.

        Between that and :meth:`closed` a file that is returned is to be renamed, off its ``.tmp``.
        """
        self._write_out()
        if not self.epochs.dirty:
            return None
        temporary = f"{self.directory}/{LEADER_EPOCHS}.tmp"
        self._filesystem.write(temporary, encode_epochs(self.epochs.entries))
        return temporary

    def closed(self) -> None:
        """Everything that :meth:`prepare_close` wrote is on disk."""
        self.epochs.dirty = False
        self._unsynced_paths.clear()
        self.recovery_point = self.log_end_offset
        self.abandon()

    @on_disk
    def rename_directory(self, name: str) -> None:
        """Move to another name in the same log directory."""
        self._cancel_flush()
        directory = f"{self.directory.rpartition('/')[0]}/{name}"
        self._filesystem.rename(self.directory, directory)
        self._unsynced_paths = [
            path.replace(self.directory, directory, 1) for path in self._unsynced_paths
        ]
        self.directory = self.snapshots.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
        self._unsynced_directories = True

    def abandon(self) -> None:
        """Let go of all files without writing."""
        for segment in self.segments:
            segment.abandon()
        self._positions.clear()


def segment_limits(config: LogConfig, chance: Chance | None) -> SegmentLimits:
    """The limits of the next segment; its age less a jitter, so that not all roll at once."""
    age_max_ms = config.segment_ms
    if "compact" in config.cleanup_policy:
        # What is never rolled is never compacted.
        age_max_ms = min(age_max_ms, config.max_compaction_lag_ms)
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    jitter_ms = chance.below(jitter_max) if chance is not None and jitter_max > 0 else 0
    return SegmentLimits(
        config.segment_bytes,
        age_max_ms - jitter_ms,
        config.segment_index_bytes,
        config.index_interval_bytes,
    )


def read_topic_id(filesystem: Filesystem, directory: str) -> bytes | None:
    """The topic that a partition's directory belongs to; None when that is not, or badly, told."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        return decode_partition_metadata(filesystem.read(path))
    except (FileNotFoundError, CorruptCheckpoint):
        return None
