"""A segment read from end to end, and everything in it held against everything. Nothing is changed.

Batch by batch: checksum, offsets, leader epochs, records; beside them the indexes, which must lead
to just these batches. Behind damage it goes on where the next sound batch is found, see
``storage/inspection.py``; what the indexes say of damaged batches is not held against them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.common.errors import ApiError, CorruptMessage
from ottla.inspection.indexes import (
    Finding,
    OffsetIndexCheck,
    TimeIndexCheck,
    TransactionIndexCheck,
)
from ottla.inspection.read_only import FILES
from ottla.inspection.segment import (
    INDEX_SUFFIXES,
    Facts,
    IndexFacts,
    Problems,
    SegmentFiles,
    reason,
)
from ottla.records.batch import MAGIC, BatchHeader, is_intact, read_header
from ottla.records.control import ControlType, read_control_type
from ottla.records.record import Record, iterate
from ottla.storage.file_records import BatchPlace, bodies, offsets_of
from ottla.storage.files import File
from ottla.storage.inspection import Damage, Inspection
from ottla.storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)

Progress = Callable[[int], None]
_UNBOUNDED: Final = (1 << 63) - 1


@dataclass
class _Inspected:
    """A segment of which nothing is known to be sound."""

    base_offset: int
    size: int
    offset_index: OffsetIndex
    file: File

    def is_known_sound(self, _position: int, _end: int) -> bool:
        return False


class WholeSegment:
    """Reads a segment from end to end and holds everything against everything."""

    def __init__(
        self,
        files: SegmentFiles,
        *,
        epochs: LeaderEpochs,
        after: int = -1,
        after_epoch: int = UNDEFINED_EPOCH,
        deep: bool = True,
        growing: bool = False,
        progress: Progress = lambda _: None,
    ) -> None:
        """``after`` are the last offset and epoch before it; ``deep`` looks into the batches too.

        A segment that is ``growing`` may end with what is not whole yet.
        """
        self._files = files
        self._epochs = epochs
        self._deep = deep
        self._growing = growing
        self._progress = progress
        self._last = max(after, files.base_offset - 1)
        self.epoch = after_epoch
        self._is_behind_damage = False
        self.facts = Facts()
        self._problem = Problems(files, self.facts)
        self._checks: dict[str, OffsetIndexCheck | TimeIndexCheck] = {}
        self._transactions: TransactionIndexCheck | None = None

    def read(self) -> Facts:
        facts = self.facts
        facts.batches = facts.records = 0
        facts.tombstones = 0 if self._deep else None
        self._open_indexes()
        try:
            file = FILES.open(self._files.path(LOG_SUFFIX))
        except OSError as error:
            self._problem(LOG_SUFFIX, None, reason(error))
            return facts
        position = 0
        try:
            facts.size = file.size()
            while position < facts.size:
                position = self._read_from(file, position)
        except OSError as error:
            self._problem(LOG_SUFFIX, position, reason(error))
        finally:
            file.close()
        self._close_indexes(whole=position == facts.size)
        return facts

    def _read_from(self, file: File, position: int) -> int:
        """Read up to damage; where to go on, which is the end when there is none."""
        try:
            for place, data in bodies(file, position, self.facts.size):
                if not is_intact(data, 0, len(data)):
                    self._problem(LOG_SUFFIX, position, "the checksum does not match")
                    return self._behind_damage(file, position)
                self._batch(place, data)
                self._progress(place.size)
                position = place.end
        except CorruptMessage as error:
            self._problem(LOG_SUFFIX, position, reason(error))
            return self._behind_damage(file, position)
        rest = self.facts.size - position
        if not rest or self._growing:
            return self.facts.size
        end = self._behind_damage(file, position)
        self._problem(LOG_SUFFIX, position, f"{end - position} bytes that are no whole batch")
        return end

    def _behind_damage(self, file: File, position: int) -> int:
        """Where the next sound batch begins, or the end."""
        self._is_behind_damage = True
        index = OffsetIndex(
            FILES, self._files.path(OFFSET_INDEX_SUFFIX), self._files.base_offset, _UNBOUNDED
        )
        segment = _Inspected(self._files.base_offset, self.facts.size, index, file)
        found = next(Inspection(segment).walk(position, self._last + 1), None)
        end = found.end if isinstance(found, Damage) else self.facts.size
        for check in self._checks.values():
            check.damaged(end)
        if self._transactions is not None:
            self._transactions.damaged()
        self._progress(end - position)
        return end

    def _batch(self, place: BatchPlace, data: bytes) -> None:
        facts = self.facts
        header = read_header(data)
        first, last = offsets_of(data, header)
        if first <= self._last:
            self._problem(LOG_SUFFIX, place.position, f"offset {first} after {self._last}")
        if last != place.last_offset:
            problem = f"offset {place.last_offset} around messages up to {last}"
            self._problem(LOG_SUFFIX, place.position, problem)
        for problem in self._batch_problems(place, header, data):
            self._problem(LOG_SUFFIX, place.position, problem)
        for suffix, check in self._checks.items():
            self._found(suffix, check.batch(place, header))
        assert facts.batches is not None
        facts.has_gaps |= first > self._last + 1 and not self._is_behind_damage
        self._is_behind_damage = False
        facts.batches += 1
        facts.saw(place, header)
        self._last = place.last_offset

    def _batch_problems(self, place: BatchPlace, header: BatchHeader, data: bytes) -> Iterator[str]:
        assert self.facts.records is not None
        if place.last_offset < place.base_offset:
            yield f"last offset {place.last_offset} before base offset {place.base_offset}"
        if header.magic == MAGIC:
            yield from self._epoch_problems(header)
        horizon = header.delete_horizon_ms
        if horizon is not None:
            known = self.facts.delete_horizon_ms
            self.facts.delete_horizon_ms = horizon if known is None else min(known, horizon)
        if self._deep:
            yield from self._record_problems(place, header, data)
        else:
            self.facts.records += max(header.record_count, 0)

    def _epoch_problems(self, header: BatchHeader) -> Iterator[str]:
        epoch = header.partition_leader_epoch
        if epoch < self.epoch:
            yield f"leader epoch {epoch} after {self.epoch}"
        self.epoch = epoch
        # What is newer than the checkpoint has not been flushed with it yet.
        known = self._epochs.epoch_for_offset(header.base_offset)
        if known not in (UNDEFINED_EPOCH, epoch) and epoch <= self._epochs.latest_epoch:
            yield f"leader epoch {epoch} where the checkpoint has {known}"

    def _record_problems(
        self, place: BatchPlace, header: BatchHeader, data: bytes
    ) -> Iterator[str]:
        facts = self.facts
        assert facts.records is not None
        assert facts.tombstones is not None
        try:
            records = iterate(data, check_crc=False)
        except ApiError as error:
            yield str(error)
            return
        facts.records += len(records)
        last = place.base_offset - 1
        if header.magic < MAGIC and records:
            last = min(last, records[0].offset - 1)
        for record in records:
            if not last < record.offset <= place.last_offset:
                yield f"record with offset {record.offset} in a batch up to {place.last_offset}"
            last = record.offset
        if header.is_control:
            yield from self._marker_problems(header, records)
        else:
            facts.tombstones += sum(1 for record in records if record.value is None)

    def _marker_problems(self, header: BatchHeader, records: list[Record]) -> Iterator[str]:
        for record in records:
            try:
                kind = read_control_type(record.key)
            except ApiError as error:
                yield str(error)
                continue
            if kind is ControlType.ABORT and self._transactions is not None:
                self._transactions.abort(record.offset, header.producer_id)

    # Indexes

    def _open_indexes(self) -> None:
        """Those that are there: that of a segment that is being written may not be yet."""
        files = self._files
        for suffix in INDEX_SUFFIXES:
            try:
                if not files.has(suffix):
                    continue
                path = files.path(suffix)
                if suffix == OFFSET_INDEX_SUFFIX:
                    self._checks[suffix] = OffsetIndexCheck(path, files.base_offset)
                elif suffix == TIME_INDEX_SUFFIX:
                    self._checks[suffix] = TimeIndexCheck(path, files.base_offset)
                else:
                    self._transactions = TransactionIndexCheck(path, files.base_offset)
            except OSError as error:
                self._problem(suffix, None, reason(error))

    def _close_indexes(self, *, whole: bool) -> None:
        for suffix, check in self._checks.items():
            self._found(suffix, check.finish(whole=whole))
            self._index_facts(suffix, check.entries)
        if self._transactions is not None:
            found = self._transactions.finish(whole=whole and self._deep)
            self._found(TRANSACTION_INDEX_SUFFIX, found)
            self._index_facts(TRANSACTION_INDEX_SUFFIX, self._transactions.entries)

    def _found(self, suffix: str, findings: Iterator[Finding]) -> None:
        for position, problem in findings:
            self._problem(suffix, position, problem)

    def _index_facts(self, suffix: str, entries: int) -> None:
        file = self._files.name + suffix
        sound = all(problem.file != file for problem in self.facts.problems)
        self.facts.indexes[suffix] = IndexFacts(entries, sound)
