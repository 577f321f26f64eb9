"""A log and how much of it is on disk.

What a flush has to reach is gathered as it comes up: files with new bytes are found by the recovery
point, new names and small files are noted. A flush is prepared on the loop, run anywhere, and
counted on the loop; see ``flush``.
"""

from typing import Final

from ottla.storage.checkpoints import LEADER_EPOCHS, encode_epochs
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.flush import Flush
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.listener import LogListener
from ottla.storage.open_files import OpenFiles
from ottla.storage.readable_log import ReadableLog, on_disk, on_disk_again
from ottla.storage.segments import Segments
from ottla.storage.verification import Verify

NONE_DUE: Final = 1 << 62


class DurableLog(ReadableLog):
    __slots__ = (
        "_due_end",
        "_filesystem",
        "_flushing",
        "_unsynced_directories",
        "_unsynced_paths",
        "due_offset",
        "last_flush_ms",
        "recovery_point",
        "unflushed_records",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        segments: Segments,
        epochs: LeaderEpochs,
        listener: LogListener,
        verify: Verify,
        open_files: OpenFiles,
    ) -> None:
        super().__init__(directory, segments, epochs, listener, verify, open_files)
        self._filesystem = filesystem
        self._flushing: Flush | None = None
        self._unsynced_paths: list[str] = []
        self._unsynced_directories = True
        self.recovery_point = 0
        """What stands below was synced."""
        self.last_flush_ms = 0
        self.unflushed_records = 0
        self.due_offset = NONE_DUE
        """Nobody may hear of records from here on before a flush (``flush.messages``)."""
        self._due_end = 0

    @property
    def is_flush_due(self) -> bool:
        return self.due_offset != NONE_DUE

    def _flush_from(self, offset: int) -> None:
        """From now on a flush is due, of what stands at ``offset`` and behind it."""
        self.unflushed_records = 0
        self.due_offset = min(self.due_offset, offset)
        self._due_end = self.log_end_offset

    def _settle_due(self) -> None:
        """What is on disk, or is no more, need not be flushed."""
        self._due_end = min(self._due_end, self.log_end_offset)
        if self._due_end <= max(self.recovery_point, self.due_offset):
            self.due_offset = NONE_DUE
        elif self.due_offset < self.recovery_point:
            self.due_offset = self.recovery_point

    @on_disk_again
    def prepare_flush(self, up_to: int | None = None) -> Flush | None:
        """What must be synced so that the log is safe up to an offset; None if it is already."""
        return self._prepare_flush(up_to)

    def _prepare_flush(self, up_to: int | None) -> Flush | None:
        if up_to is None:
            up_to = self.log_end_offset
        nothing_new = up_to <= self.recovery_point and not self._unsynced_paths
        if nothing_new or self._flushing is not None:
            return None
        flush = Flush(self._filesystem, up_to)
        for segment in self.segments.touching(self.recovery_point, up_to):
            flush.files.append(segment.file)
            flush.paths += segment.index_paths()
        flush.paths += self._unsynced_paths
        self._unsynced_paths = []
        if self.epochs.dirty:
            flush.epochs = f"{self.directory}/{LEADER_EPOCHS}", encode_epochs(self.epochs.entries)
            self.epochs.dirty = False
        if self._unsynced_directories:
            flush.directories = [self.directory, self.directory.rpartition("/")[0]]
            self._unsynced_directories = False
        self._flushing = flush
        return flush

    def flushed(self, flush: Flush, now_ms: int, error: OSError | None = None) -> None:
        """A flush was run; with an error of the disk nobody knows what it did."""
        if error is not None:
            if self._flushing is flush and not is_disks(error):
                self._cancel_flush()
            raise self._refused(error) from error
        if self._flushing is not flush:
            return
        self._flushing = None
        self.recovery_point = max(self.recovery_point, flush.up_to)
        self.last_flush_ms = now_ms
        self._settle_due()
        if self.recovery_point == self.log_end_offset:
            self.unflushed_records = 0

    @on_disk
    def flush(self, now_ms: int, up_to: int | None = None) -> None:
        """Have everything below ``up_to`` on disk when this returns.

        While another flush is under way only the batches are synced, and it is left to that one
        to move the recovery point.
        """
        if self._flushing is not None:
            for segment in self.segments.touching(self.recovery_point, up_to):
                segment.file.sync()
            return
        flush = self._prepare_flush(up_to)
        if flush is not None:
            flush.run()
            self.flushed(flush, now_ms)

    def _save_epochs(self) -> None:
        if self.epochs.dirty:
            path = f"{self.directory}/{LEADER_EPOCHS}"
            self._filesystem.write_atomically(path, encode_epochs(self.epochs.entries))
            self.epochs.dirty = False

    def _cancel_flush(self) -> None:
        flush, self._flushing = self._flushing, None
        if flush is not None:
            flush.cancel()
            self._take_back(flush)

    def _take_back(self, flush: Flush) -> None:
        """What it should have synced is still to be synced."""
        self._unsynced_paths += flush.paths
        self._unsynced_directories |= bool(flush.directories)
        self.epochs.dirty |= flush.epochs is not None
