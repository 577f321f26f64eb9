"""Batches of several requests that a leader appends together: one write for all of them.

Each is checked and numbered behind the one before it, as if that were in the log already; then all
are written by one call. Only then the log ends behind them: a reader finds all of it or nothing. A
write that fails refuses every batch in it, and takes back what was noted of producers.

A batch that is refused by itself costs the others nothing. A segment that ends between two batches
ends the write there, so that files are as if each batch had been written alone.
"""

from typing import TYPE_CHECKING, TypeAlias

from ottla.records.batch import set_base_offset_and_epoch
from ottla.records.rules import AppendRules
from ottla.records.validation import ValidatedAppend, validate
from ottla.storage.directories import LogDirFailed
from ottla.storage.flushing import Flushing
from ottla.storage.producer_state import BatchMetadata, ProducerEntry
from ottla.storage.results import AppendInfo

if TYPE_CHECKING:
    from ottla.storage.log import Log

Batch: TypeAlias = tuple[memoryview, int, int]
"""A buffer, and where the batch begins and ends in it; its offsets are set there."""
Outcome: TypeAlias = AppendInfo | Exception


class JointAppend:
    __slots__ = (
        "_before",
        "_end_offset",
        "_epoch",
        "_flushing",
        "_log",
        "_now_ms",
        "_outcomes",
        "_parts",
        "_placed",
        "_rules",
        "_size",
        "_unwritten",
    )

    def __init__(
        self, log: "Log", rules: AppendRules, flushing: Flushing, leader_epoch: int, now_ms: int
    ) -> None:
        self._log = log
        self._rules = rules
        self._flushing = flushing
        self._epoch = leader_epoch
        self._now_ms = now_ms
        self._outcomes: list[Outcome] = []
        self._unwritten: list[int] = []
        """Which of the outcomes the next write decides."""
        self._parts: list[memoryview] = []
        self._placed: list[tuple[int, int, int]] = []
        """Of each part its size, last offset and largest timestamp."""
        self._size = 0
        self._end_offset = log.log_end_offset
        self._before: dict[int, ProducerEntry | None] = {}
        """What was known of the producers before."""

    def append(self, batches: list[Batch]) -> list[Outcome]:
        """What became of each batch, in their order."""
        for buffer, start, end in batches:
            try:
                outcome: Outcome = self._add(buffer, start, end)
            except Exception as error:  # noqa: BLE001 - it belongs to the request with the batch
                outcome = error
            self._outcomes.append(outcome)
        if self._parts:
            self._write()
        return self._outcomes

    def _add(self, buffer: memoryview, start: int, end: int) -> AppendInfo:
        log = self._log
        if log.failure is not None:
            raise log.failed(log.failure)
        append = validate(buffer, start, end, self._rules, self._now_ms)
        assert not append.is_transactional
        size = append.end - append.start
        if append.producer_id >= 0:
            duplicate = log.producers.check_client(append)
            if duplicate is not None:
                if duplicate.last_offset >= log.log_end_offset:
                    self._unwritten.append(len(self._outcomes))
                return repeated(log, duplicate, size)
        try:
            self._make_room(append, size)
        except OSError as error:
            raise log.refused(error) from error
        return self._place(append, size)

    def _make_room(self, append: ValidatedAppend, size: int) -> None:
        """See that the batch belongs into the active segment, behind those that are to come."""
        log, now_ms, newest = self._log, self._now_ms, append.max_timestamp
        segment = log.segments.active
        if not segment.active:
            log.segments.activate()
        last_offset = self._end_offset + append.last_offset_delta
        if self._parts and (
            # The first batch of a segment tells its age, and each whether its indexes are full.
            segment.size == 0
            or len(self._parts) >= segment.index_room
            or segment.should_roll(self._size + size, last_offset, newest, now_ms)
        ):
            refused = self._write()
            if refused is not None:
                raise refused  # it was numbered, and its producer checked, behind those
            last_offset = self._end_offset + append.last_offset_delta
        if not self._parts and segment.should_roll(size, last_offset, newest, now_ms):
            log.roll_for(size, self._end_offset, now_ms)

    def _place(self, append: ValidatedAppend, size: int) -> AppendInfo:
        """Number the batch, and note its producer."""
        log = self._log
        base_offset = self._end_offset
        last_offset = base_offset + append.last_offset_delta
        if self._epoch != log.epochs.latest_epoch:
            log.epochs.assign(self._epoch, base_offset)
        view, start = append.buffer, append.start
        set_base_offset_and_epoch(view, start, base_offset, self._epoch)
        producer_id = append.producer_id
        if producer_id >= 0:
            producers = log.producers
            if producer_id not in self._before:
                entry = producers.producers.get(producer_id)
                self._before[producer_id] = None if entry is None else entry.copy()
            batch = BatchMetadata(
                append.last_sequence, last_offset, append.last_offset_delta, append.max_timestamp
            )
            producers.add_batch(producer_id, append.producer_epoch, batch, False)
        self._parts.append(view[start : append.end])
        self._placed.append((size, last_offset, append.max_timestamp))
        self._unwritten.append(len(self._outcomes))
        self._size += size
        self._end_offset = last_offset + 1
        return AppendInfo(
            base_offset,
            last_offset,
            append.append_time,
            log.log_start_offset,
            append.record_count,
            size,
        )

    def _write(self) -> LogDirFailed | None:
        """Write what was placed; if that fails, nothing of it was ever there."""
        log, parts = self._log, self._parts
        refused = None
        try:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            log.segments.active.append_several(data, self._placed)
        except OSError as error:
            refused = log.refused(error)
            refused.__cause__ = error
            self._take_back(refused)
        else:
            log.log_end_offset = log.producers.end_offset = self._end_offset
            self._count()
        self._parts, self._placed, self._unwritten = [], [], []
        self._size = 0
        self._before.clear()
        return refused

    def _count(self) -> None:
        flushing, outcomes = self._flushing, self._outcomes
        for number in self._unwritten:
            info = outcomes[number]
            assert isinstance(info, AppendInfo)
            if info.is_duplicate:
                info.is_flush_due = info.last_offset >= flushing.due_offset
            elif flushing.appended(info.first_offset, info.last_offset + 1, info.record_count):
                info.is_flush_due = True

    def _take_back(self, refused: LogDirFailed) -> None:
        known = self._log.producers.producers
        for producer_id, entry in self._before.items():
            if entry is None:
                del known[producer_id]
            else:
                known[producer_id] = entry
        for number in self._unwritten:
            self._outcomes[number] = refused
        self._end_offset = self._log.log_end_offset


def repeated(log: "Log", batch: BatchMetadata, size: int) -> AppendInfo:
    """What became of a batch that its producer sends again."""
    first, last, count = batch.first_offset, batch.last_offset, batch.offset_delta + 1
    info = AppendInfo(first, last, batch.timestamp, log.log_start_offset, count, size)
    info.is_duplicate = True
    info.is_flush_due = last >= log.due_offset
    return info
