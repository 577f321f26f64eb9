"""Which log is cleaned next, which must not be, and how far each is clean.

Rules:

1. A log is cleaned by one cleaner at a time, and only while nothing else takes from it: not while
   it is being moved, and not while retention looks at it.
2. The offset up to which a log is clean is written down after its new segments are in place; a
   crash in between cleans a part twice, never none.
3. A log whose cleaning ends with an error that is not the disk's is not tried again before the
   next start: it would fail again, and keep others waiting.

Counterpart: ``LogCleanerManager``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.common.errors import CorruptMessage
from ottla.common.topic_partition import TopicPartition
from ottla.storage.checkpoints import Offsets
from ottla.storage.cleaning.cleanable import LogToClean, log_to_clean
from ottla.storage.cleaning.log_cleaning import Cleaning

if TYPE_CHECKING:
    from ottla.storage.directories import LogDirectory
    from ottla.storage.log import Log


class CleanerManager:
    def __init__(self) -> None:
        self._clean_offsets: dict[str, Offsets] = {}
        """By log directory: where the clean part of each log ends."""
        self.changed: dict[str, None] = {}
        """Log directories whose checkpoint is to be written."""
        self.in_progress: dict[Log, Cleaning] = {}
        self.uncleanable: dict[Log, None] = {}
        """Logs whose cleaning has failed."""
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0
        self.last_run_ms = 0

    # How far logs are clean

    def load(self, directory: "LogDirectory") -> None:
        self._clean_offsets[directory.path] = directory.cleaner_offsets.offsets()

    def clean_offset(self, log: "Log") -> int | None:
        return self._offsets_of(log).get(log.topic_partition)

    def forget_offset(self, path: str, topic_partition: TopicPartition) -> None:
        """A log is made under a name that another one had."""
        self._clean_offsets.get(path, {}).pop(topic_partition, None)

    def clean_offsets(self, path: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """What the checkpoint of a directory shall say, of those partitions that are in it."""
        known = self._clean_offsets.get(path, {})
        return {tp: known[tp] for tp in partitions if tp in known}

    def _offsets_of(self, log: "Log") -> Offsets:
        return self._clean_offsets.setdefault(log.directory.rpartition("/")[0], {})

    def _set_clean_offset(self, log: "Log", offset: int) -> None:
        self._offsets_of(log)[log.topic_partition] = offset
        self.changed[log.directory.rpartition("/")[0]] = None

    # Choosing

    def grab_dirtiest(self, logs: Iterable["Log"], now_ms: int) -> Cleaning | None:
        """Begin to clean the log that needs it most, if one does."""
        self.last_run_ms = now_ms
        candidates = []
        for log in logs:
            if not self._may_be_cleaned(log):
                continue
            try:
                to_clean, is_reset = log_to_clean(log, self.clean_offset(log), now_ms)
            except OSError as error:
                log.refused(error)
                continue
            except CorruptMessage:
                self.uncleanable[log] = None
                continue
            if is_reset:
                self._set_clean_offset(log, to_clean.first_dirty_offset)
            if to_clean.total_bytes:
                candidates.append(to_clean)
        self.max_dirty_ratio = max((each.cleanable_ratio for each in candidates), default=0.0)
        self.max_compaction_delay_ms = max(
            (each.compaction_delay_ms for each in candidates), default=0
        )
        due = [each for each in candidates if each.is_due]
        if not due:
            return None
        dirtiest = max(due, key=lambda each: each.cleanable_ratio)
        cleaning = self.in_progress[dirtiest.log] = Cleaning(dirtiest, now_ms)
        return cleaning

    def _may_be_cleaned(self, log: "Log") -> bool:
        return (
            "compact" in log.config.cleanup_policy
            and not log.remote_storage_enabled
            and log.failure is None
            and log not in self.in_progress
            and log not in self.uncleanable
        )

    def cleanable_bytes(self, log: "Log", now_ms: int) -> LogToClean:
        """How dirty a log is, whether or not it is due."""
        return log_to_clean(log, self.clean_offset(log), now_ms)[0]

    # Ending

    def done(self, cleaning: Cleaning) -> None:
        """All groups are in place."""
        log = cleaning.log
        if self.in_progress.get(log) is cleaning:
            del self.in_progress[log]
            self._set_clean_offset(log, cleaning.end_offset)

    def failed(self, cleaning: Cleaning, *, for_good: bool) -> None:
        """It ended early; if not for good it is tried again."""
        cleaning.discard()
        if self.in_progress.get(cleaning.log) is cleaning:
            del self.in_progress[cleaning.log]
            if for_good:
                self.uncleanable[cleaning.log] = None

    def abort(self, log: "Log") -> None:
        """Something else is about to change the log."""
        cleaning = self.in_progress.pop(log, None)
        if cleaning is not None:
            cleaning.abort()

    def abort_all(self) -> None:
        for log in list(self.in_progress):
            self.abort(log)

    # What happens to logs

    def truncating(self, log: "Log", offset: int) -> None:
        if offset < log.segments.active.base_offset:
            self.abort(log)

    def truncated(self, log: "Log") -> None:
        """What was clean may be gone, and other records come in its place."""
        clean_offset = self.clean_offset(log)
        if clean_offset is not None and clean_offset > log.segments.active.base_offset:
            self._set_clean_offset(log, log.segments.active.base_offset)

    def forget(self, log: "Log") -> None:
        """The log goes, under its name or with its directory."""
        self.abort(log)
        self.uncleanable.pop(log, None)
        self._offsets_of(log).pop(log.topic_partition, None)

    def moved(self, old: "Log", new: "Log") -> None:
        """``new`` has the batches of ``old``, as clean as they were, in another directory."""
        clean_offset = self.clean_offset(old)
        was_uncleanable = old in self.uncleanable
        self.forget(old)
        if clean_offset is not None:
            self._set_clean_offset(new, clean_offset)
        if was_uncleanable:
            self.uncleanable[new] = None
