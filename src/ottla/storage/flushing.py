"""How much of a log is on disk, and what must reach it.

Files with new bytes are found by the recovery point, new names and small files are noted by
``Segments`` as they come up. A flush is prepared on the loop, run anywhere, and counted on the
loop; see ``flush``. At most one is under way.
"""

from typing import Final

from ottla.storage.checkpoints import LEADER_EPOCHS, encode_epochs
from ottla.storage.files import is_disks
from ottla.storage.flush import Flush
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segments import Segments

NONE_DUE: Final = 1 << 62


class Flushing:
    """See the module. ``end_offset`` is always where the log ends."""

    __slots__ = (
        "_due_end",
        "_epochs",
        "_segments",
        "_under_way",
        "_unflushed_records",
        "due_offset",
        "last_flush_ms",
        "records_max",
        "recovery_point",
    )

    def __init__(
        self, segments: Segments, epochs: LeaderEpochs, recovery_point: int, now_ms: int
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        self._under_way: Flush | None = None
        self.last_flush_ms = now_ms
        self._unflushed_records = 0
        self._due_end = 0
        self.recovery_point = recovery_point
        """What stands below was synced."""
        self.records_max = NONE_DUE
        """After that many records a flush is due (``flush.messages``)."""
        self.due_offset = NONE_DUE
        """Nobody may hear of records from here on before a flush."""

    # When one is due

    @property
    def is_due(self) -> bool:
        return self.due_offset != NONE_DUE

    def is_overdue(self, now_ms: int, interval_ms: int, end_offset: int) -> bool:
        """Whether the log has waited for ``interval_ms`` with something that is not on disk."""
        if self.recovery_point >= end_offset:
            return False
        # After a step back of the clock it counts from now on.
        self.last_flush_ms = min(self.last_flush_ms, now_ms)
        return now_ms - self.last_flush_ms >= interval_ms

    def is_dirty(self, end_offset: int) -> bool:
        """Whether a clean stop has something to write."""
        segments = self._segments
        return (
            segments.active.active
            or self._epochs.dirty
            or bool(segments.unsynced_paths)
            or self.recovery_point < end_offset
        )

    def appended(self, base_offset: int, end_offset: int, count: int) -> bool:
        """Records were written; whether a flush is due of what stands at ``base_offset``."""
        self._unflushed_records += count
        if self._unflushed_records < self.records_max:
            return False
        self._unflushed_records = 0
        self.due_offset = min(self.due_offset, base_offset)
        self._due_end = end_offset
        return True

    def truncated(self, end_offset: int) -> None:
        self.recovery_point = min(self.recovery_point, end_offset)
        self._settle_due(end_offset)

    def _settle_due(self, end_offset: int) -> None:
        """What is on disk, or is no more, need not be flushed."""
        self._due_end = min(self._due_end, end_offset)
        if self._due_end <= max(self.recovery_point, self.due_offset):
            self.due_offset = NONE_DUE
        elif self.due_offset < self.recovery_point:
            self.due_offset = self.recovery_point

    # One flush

    def prepare(self, up_to: int) -> Flush | None:
        """What must be synced so that the log is safe up to an offset; None if it is already."""
        segments, epochs = self._segments, self._epochs
        nothing_new = up_to <= self.recovery_point and not segments.unsynced_paths
        if nothing_new or self._under_way is not None:
            return None
        flush = Flush(segments.filesystem, up_to)
        for segment in segments.touching(self.recovery_point, up_to):
            flush.files.append(segment.file)
            flush.paths += segment.index_paths()
        flush.paths += segments.unsynced_paths
        segments.unsynced_paths = []
        if epochs.dirty:
            flush.epochs = self._epochs_path, encode_epochs(epochs.entries)
            epochs.dirty = False
        if segments.are_names_unsynced:
            flush.directories = [segments.directory, segments.directory.rpartition("/")[0]]
            segments.are_names_unsynced = False
        self._under_way = flush
        return flush

    def flushed(self, flush: Flush, now_ms: int, end_offset: int) -> None:
        """A flush was run; if it was cancelled meanwhile, it says nothing of the log as it is."""
        if self._under_way is not flush:
            return
        self._under_way = None
        self.recovery_point = max(self.recovery_point, flush.up_to)
        self.last_flush_ms = now_ms
        self._settle_due(end_offset)
        if self.recovery_point == end_offset:
            self._unflushed_records = 0

    def failed(self, flush: Flush, error: OSError) -> None:
        """With an error of the disk nobody knows what it did; with others it is to be done yet."""
        if self._under_way is flush and not is_disks(error):
            self.cancel()

    def flush(self, up_to: int | None, now_ms: int, end_offset: int) -> None:
        """Have everything below ``up_to`` on disk when this returns.

        While another flush is under way only the batches are synced, and it is left to that one
        to move the recovery point.
        """
        if self._under_way is not None:
            for segment in self._segments.touching(self.recovery_point, up_to):
                segment.file.sync()
            return
        flush = self.prepare(end_offset if up_to is None else up_to)
        if flush is not None:
            flush.run()
            self.flushed(flush, now_ms, end_offset)

    def cancel(self) -> None:
        """The log is about to change; what should have been synced is still to be synced."""
        flush, self._under_way = self._under_way, None
        if flush is not None:
            flush.cancel()
            self._segments.unsynced_paths += flush.paths
            self._segments.are_names_unsynced |= bool(flush.directories)
            self._epochs.dirty |= flush.epochs is not None

    # The file of leader epochs

    @property
    def _epochs_path(self) -> str:
        return f"{self._segments.directory}/{LEADER_EPOCHS}"

    def save_epochs(self) -> None:
        """Have them on disk when this returns."""
        if self._epochs.dirty:
            data = encode_epochs(self._epochs.entries)
            self._segments.filesystem.write_atomically(self._epochs_path, data)
            self._epochs.dirty = False

    # A stop that syncs many logs at once

    def write_epochs_aside(self) -> str | None:
        """Write them as a ``.tmp``, if they have changed; its path."""
        if not self._epochs.dirty:
            return None
        temporary = f"{self._epochs_path}.tmp"
        self._segments.filesystem.write(temporary, encode_epochs(self._epochs.entries))
        return temporary

    def closed(self, end_offset: int) -> None:
        """Everything is on disk."""
        self._epochs.dirty = False
        self._segments.unsynced_paths.clear()
        self.recovery_point = end_offset
