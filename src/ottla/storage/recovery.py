"""Opening a log: what its files say, and what they must say after an unclean stop.

After a clean stop the files are believed; an index that is missing or cannot be one is rebuilt.
After any other stop everything from the recovery point on is read: the log ends before the first
batch that is not whole, not sound, or out of order, and what stands behind it goes. What is before
the recovery point was synced and is believed.

Out of order are offsets and leader epochs that go back and, where there may be no gaps, a segment
that does not begin where the one before it ends: the disk may have kept a later segment and lost
the end of an earlier one. Within a file nothing can be lost without a trace, but base offsets lie
outside the checksum: a gap there needs a witness. Compaction leaves gaps, which followers copy, and
Kafka's truncation does; and when nobody knows the recovery point, old segments that were compacted
once are read again too. A message of magic 0 or 1 that wraps others bears the offset of the last:
where it begins is known when it is unpacked.

The recovery point itself does not move here: only a flush moves it.
"""

import contextlib
from typing import NamedTuple

from ottla.common.errors import CorruptMessage, InvalidRecord
from ottla.observability.logging import logger
from ottla.records.batch import (
    BatchHeader,
    is_intact,
    read_header,
)
from ottla.records.compression import ACCEPTED_MAX
from ottla.storage.checkpoints import LEADER_EPOCHS, CorruptCheckpoint, read_epochs
from ottla.storage.file_records import (
    BatchPlace,
    bodies,
    first_offset,
    headers,
    offsets_of,
    place_at,
)
from ottla.storage.index_rebuild import REBUILT_SUFFIX
from ottla.storage.inspection import Damage, Inspection
from ottla.storage.leader_epochs import OFFSET_MAX, UNDEFINED_EPOCH, LeaderEpochs
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX
from ottla.storage.producer_replay import rebuild_producers, replay
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    offset_of_file,
)
from ottla.storage.segments import Segments

report = logger(__name__)

RAFT_SNAPSHOT_DELETED = ".checkpoint.deleted"
"""Raft's own snapshots lie in the same directory; it cleans up after itself."""


class OpenedLog(NamedTuple):
    """The parts of a log that was opened."""

    segments: Segments
    epochs: LeaderEpochs
    producers: ProducerState
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class LogLoader:
    """Opens one log, once."""

    def __init__(
        self,
        segments: Segments,
        *,
        producer_expiration_ms: int,
        now_ms: int,
        recovery_point: int,
        log_start_offset: int,
        clean_shutdown: bool,
        may_have_gaps: bool,
        has_remote_part: bool = False,
    ) -> None:
        self._segments = segments
        """None yet."""
        self._filesystem = segments.filesystem
        self._directory = segments.directory
        self._snapshots = segments.snapshots
        self._now_ms = now_ms
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._clean_shutdown = clean_shutdown
        self._may_have_gaps = may_have_gaps
        self._has_remote_part = has_remote_part
        self._producers = ProducerState(producer_expiration_ms)
        self._epochs = LeaderEpochs()
        self._epochs_known = True
        self._changed = False
        self._has_walked = False
        """Whether the producers are those of batches that were just read, up to an end."""

    def load(self) -> OpenedLog:
        names = self._finish_replacements(self._filesystem.list_directory(self._directory))
        self._find_snapshots(names)
        self._load_epochs(names)
        self._load_segments(names)
        if not self._clean_shutdown:
            self._recover_unflushed()
        log_end_offset = self._find_end()
        segments = self._segments
        segments.active.largest_timestamp()  # what misleads is made anew here, not by an append
        log_start_offset = self._log_start_offset
        if not self._has_remote_part:
            log_start_offset = max(log_start_offset, segments[0].base_offset)
        self._epochs.truncate_from_end(log_end_offset)
        self._epochs.truncate_from_start(self._log_start_offset)
        self._snapshots.remove_strays(segments.base_offsets)
        self._snapshots.keep_between(log_start_offset, log_end_offset)
        if self._has_walked and self._producers.end_offset == log_end_offset >= log_start_offset:
            self._producers.remove_expired(self._now_ms)
        else:
            self._load_producers(log_start_offset, log_end_offset)
        if self._changed:
            # What was cut or removed must not come back beside what is appended in its place.
            self._filesystem.sync_directory(self._directory)
        recovery_point = log_end_offset if self._clean_shutdown else self._recovery_point
        return OpenedLog(
            segments,
            self._epochs,
            self._producers,
            log_start_offset,
            log_end_offset,
            min(recovery_point, log_end_offset),
        )

    # Files

    def _finish_replacements(self, names: list[str]) -> set[str]:
        """Finish or undo what compaction was about to replace; the names that remain."""
        remaining = set(names)
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        unfinished = min((offset_of_file(name) or 0 for name in cleaned), default=None)
        swaps = []
        for name in names:
            if name.endswith(DELETED_SUFFIX) and not name.endswith(RAFT_SNAPSHOT_DELETED):
                self._remove(name, remaining)
            elif name.endswith(SWAP_SUFFIX):
                offset = offset_of_file(name)
                if offset is None or (unfinished is not None and offset >= unfinished):
                    self._remove(name, remaining)
                else:
                    swaps.append(name)
            elif name.endswith(REBUILT_SUFFIX):
                self._remove(name, remaining)
        for name in cleaned:
            self._remove(name, remaining)
        if swaps:
            self._swap_in(swaps, remaining)
        return remaining

    def _remove(self, name: str, remaining: set[str]) -> None:
        self._filesystem.remove(f"{self._directory}/{name}")
        remaining.discard(name)

    def _swap_in(self, swaps: list[str], remaining: set[str]) -> None:
        """Complete a replacement: what the new segments cover goes, then they get their names."""
        low, high = self._swapped_range(swaps)
        for name in sorted(remaining):
            offset = offset_of_file(name)
            if offset is not None and low <= offset < high and name.endswith(SUFFIXES):
                self._remove(name, remaining)
        for name in swaps:
            target = name.removesuffix(SWAP_SUFFIX)
            self._filesystem.rename(f"{self._directory}/{name}", f"{self._directory}/{target}")
            remaining.discard(name)
            remaining.add(target)
        self._filesystem.sync_directory(self._directory)

    def _swapped_range(self, swaps: list[str]) -> tuple[int, int]:
        logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        low, high = 0, -1
        for name in logs:
            base_offset = offset_of_file(name) or 0
            low = base_offset if high < 0 else min(low, base_offset)
            file = self._filesystem.open(f"{self._directory}/{name}")
            for _, header in headers(file, 0, file.size()):
                high = max(high, header.last_offset + 1)
            high = max(high, base_offset + 1)  # the segment of that name goes in any case
            file.close()
        return low, high

    def _find_snapshots(self, names: set[str]) -> None:
        for name in names:
            offset = offset_of_file(name)
            if offset is not None and name.endswith(SNAPSHOT_SUFFIX):
                self._snapshots.found(offset)

    def _load_epochs(self, names: set[str]) -> None:
        if LEADER_EPOCHS not in names:
            return
        path = f"{self._directory}/{LEADER_EPOCHS}"
        try:
            self._epochs = LeaderEpochs(read_epochs(self._filesystem, path))
        except CorruptCheckpoint:
            self._epochs_known = False

    def _load_segments(self, names: set[str]) -> None:
        bases = sorted(
            offset
            for name in names
            if name.endswith(LOG_SUFFIX) and (offset := offset_of_file(name)) is not None
        )
        known = set(bases)
        for name in sorted(names):
            if name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                offset = offset_of_file(name)
                if offset is not None and offset not in known:
                    self._remove(name, names)
        for base_offset in bases:
            self._segments.add(self._segment(base_offset, exists=True))
        for segment in list(self._segments):
            if not self._epochs_known:
                self._find_epochs(segment)
            if self._clean_shutdown or not self._ends_after_recovery_point(segment):
                self._check_indexes(segment)

    def _segment(self, base_offset: int, *, exists: bool = False) -> Segment:
        segment = self._segments.new(base_offset, self._now_ms)
        if exists:
            segment.found_on_disk()
        return segment

    def _find_epochs(self, segment: Segment) -> None:
        """The checkpoint of epochs is damaged; the batches know them."""
        with contextlib.suppress(CorruptMessage):
            for _, header in headers(segment.file, 0, segment.size):
                self._assign_epoch(header)

    def _check_indexes(self, segment: Segment) -> None:
        if not (
            segment.offset_index.has_whole_entries()
            and segment.time_index.has_whole_entries()
            and segment.transaction_index.is_sound()
        ):
            self._rebuild(segment)

    def _rebuild(self, segment: Segment) -> None:
        """Make all indexes of a segment anew; nothing of it is cut, damaged batches stay."""
        self._load_producers(self._log_start_offset, segment.base_offset)
        segment.begin_rebuild()
        segment.transaction_index.reset()
        for found in Inspection(segment).walk(0, segment.base_offset):
            if isinstance(found, Damage):
                segment.is_damaged = True
                continue
            place, header = found
            segment.index(place.position, place.size, place.last_offset, header.max_timestamp)
            body = segment.file.read_at(place.position, place.size) if header.is_control else b""
            replay(self._producers, header, body, segment.transaction_index)
            self._producers.end_offset = place.last_offset + 1
        segment.end_rebuild(at_once=True)
        segment.transaction_index.sync()

    def _ends_after_recovery_point(self, segment: Segment) -> bool:
        following = self._segments.higher(segment.base_offset)
        return following is None or following.base_offset > self._recovery_point

    # Recovery

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.touching(self._recovery_point)
        if unflushed:
            # What the file of epochs says of the part that follows may be newer or older than it.
            self._epochs.truncate_from_end(unflushed[0].base_offset)
        end_offset: int | None = None
        for number, segment in enumerate(unflushed):
            if end_offset not in (None, segment.base_offset) and not self._may_have_gaps:
                self._drop(unflushed[number:])
                return
            cut, end_offset = self._recover(segment)
            if cut:
                self._drop(unflushed[number + 1 :])
                return

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments from the last one on, so that a crash leaves no hole."""
        for segment in reversed(segments):
            self._segments.remove(segment)
            segment.abandon()
            for path in segment.paths():
                if self._filesystem.exists(path):
                    self._filesystem.remove(path)
        self._changed = True

    def _recover(self, segment: Segment) -> tuple[bool, int]:
        """Read a segment, rebuild its indexes and cut it before what is not sound.

        Whether it was cut, and the offset behind its last batch.
        """
        self._bring_producers_to(segment)
        segment.begin_rebuild()
        segment.transaction_index.reset()
        valid_bytes, end_offset, epoch = 0, segment.base_offset, UNDEFINED_EPOCH
        try:
            for place, batch in bodies(segment.file, 0, segment.size):
                header = read_header(batch)
                if not _is_sound(header, batch, segment, epoch):
                    break
                first, last = offsets_of(batch, header, ACCEPTED_MAX)
                if last != place.last_offset or first < end_offset:
                    break
                if first > end_offset and not self._may_have_gap(segment, place, end_offset, first):
                    break
                segment.index(place.position, place.size, place.last_offset, header.max_timestamp)
                epoch = max(epoch, header.partition_leader_epoch)
                self._assign_epoch(header)
                replay(self._producers, header, batch, segment.transaction_index)
                valid_bytes, end_offset = place.end, place.last_offset + 1
        except (CorruptMessage, InvalidRecord):
            pass
        cut = valid_bytes < segment.size
        if cut:
            segment.file.truncate(valid_bytes)
            segment.file.sync()
            segment.size = valid_bytes
            self._changed = True
        segment.end_rebuild(at_once=False)
        segment.sound_from = 0
        self._producers.end_offset = end_offset
        self._snapshots.take(self._producers)
        return cut, end_offset

    def _may_have_gap(
        self, segment: Segment, place: BatchPlace, end_offset: int, first: int
    ) -> bool:
        """Whether a batch that begins at ``first``, above ``end_offset``, was written so.

        Its base offset has no checksum. The batch or segment behind it bears witness, unless that
        batch goes back behind ``end_offset`` and is wrong itself. At the end of all one bit that is
        another would make the gap a power of two.
        """
        behind = place_at(segment.file, place.end, segment.size)
        if behind is not None:
            return not end_offset <= first_offset(segment.file, behind) <= place.last_offset
        following = self._segments.higher(segment.base_offset)
        if following is not None and following.base_offset <= place.last_offset + 1:
            return following.base_offset == place.last_offset + 1
        gap = first - end_offset
        return self._may_have_gaps or gap & (gap - 1) != 0

    def _bring_producers_to(self, segment: Segment) -> None:
        """What the walk has seen goes on: a snapshot would know less of each producer."""
        if self._has_walked:
            self._producers.end_offset = segment.base_offset
            self._snapshots.take(self._producers)
        else:
            self._snapshots.keep_between(-1, segment.base_offset)  # the walk takes the later ones
            self._load_producers(self._log_start_offset, segment.base_offset)
            self._has_walked = True

    def _assign_epoch(self, header: BatchHeader) -> None:
        if header.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _find_end(self) -> int:
        """The log end offset; there is a segment afterwards."""
        if self._segments:
            end_offset = self._end_of_last()
            if end_offset >= self._log_start_offset:
                return end_offset
            # All of it was deleted; a later start than any record is left to begin at.
            self._drop(list(self._segments))
            self._epochs.clear()
            self._snapshots.remove_all()
        segment = self._segment(self._log_start_offset)
        segment.create_files()
        self._segments.add(segment)
        return self._log_start_offset

    def _end_of_last(self) -> int:
        """The offset behind the last segment.

        Where its end is damaged after a clean stop, recovery point and snapshot of that stop say
        how far it went, and what comes goes into a new segment: what could not be told apart from
        the damage is not put behind it, and nothing that was acknowledged is cut off.
        """
        last = self._segments.active
        if not self._clean_shutdown:
            return last.sound_end(OFFSET_MAX)[0]
        known_end = self._recovery_point if self._recovery_point > last.base_offset else OFFSET_MAX
        end_offset, is_whole = last.sound_end(known_end)
        if is_whole:
            self._tell_of_loss(end_offset)
            return end_offset
        end_offset = max(end_offset, self._recovery_point, self._snapshots.latest() or 0)
        segment = self._segment(max(end_offset, last.base_offset + 1))
        segment.create_files()
        self._segments.add(segment)
        return segment.base_offset

    def _tell_of_loss(self, end_offset: int) -> None:
        """A file that ends with a batch ends the log, as in Kafka; a follower gets the rest."""
        stopped_at = min(self._recovery_point, self._snapshots.latest() or 0)
        if end_offset < stopped_at:
            report.error(
                "a log ends before the offset at which it was closed: records are lost",
                log=self._directory,
                end_offset=end_offset,
                closed_at=stopped_at,
            )

    def _load_producers(self, start_offset: int, end_offset: int) -> None:
        rebuild_producers(
            self._producers,
            self._segments,
            start_offset=start_offset,
            end_offset=end_offset,
            now_ms=self._now_ms,
        )


def _is_sound(header: BatchHeader, batch: bytes, segment: Segment, epoch: int) -> bool:
    """Whether a batch is whole and may be in ``segment``, behind one of ``epoch``."""
    return (
        header.last_offset_delta >= 0
        and header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
        and (header.partition_leader_epoch >= epoch or header.partition_leader_epoch < 0)
        and is_intact(batch, 0, len(batch))
    )
