"""A segment read from end to end, and everything in it held against everything. Nothing is changed.

Batch by batch: checksum, offsets, leader epochs, records; beside them the indexes, which must lead
to just these batches. A batch whose length cannot be right ends the look at its segment, since
nobody knows where the next one begins; any other damage does not.
"""

from collections.abc import Callable, Iterator

from ottla.cli.log_files import records_of
from ottla.cli.log_indexes import (
    Finding,
    OffsetIndexCheck,
    TimeIndexCheck,
    TransactionIndexCheck,
)
from ottla.cli.log_segment import (
    INDEX_SUFFIXES,
    Facts,
    IndexFacts,
    Problems,
    SegmentFiles,
    reason,
)
from ottla.cli.read_only import FILES
from ottla.common.errors import ApiError, CorruptMessage
from ottla.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from ottla.records.control import ControlType, read_control_type
from ottla.records.record import Record
from ottla.storage.file_records import BatchPlace, bodies
from ottla.storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.tiered.batches import is_sound

Progress = Callable[[int], None]


class WholeSegment:
    """Reads a segment from end to end and holds everything against everything."""

    def __init__(
        self,
        files: SegmentFiles,
        *,
        epochs: LeaderEpochs,
        after: int = -1,
        deep: bool = True,
        growing: bool = False,
        progress: Progress = lambda _: None,
    ) -> None:
        """``after`` is the last offset before it; ``deep`` looks into the batches too.

        A segment that is ``growing`` may end with what is not whole yet.
        """
        self._files = files
        self._epochs = epochs
        self._deep = deep
        self._growing = growing
        self._progress = progress
        self._last = max(after, files.base_offset - 1)
        self._epoch = UNDEFINED_EPOCH
        self.facts = Facts()
        self._problem = Problems(files, self.facts)
        self._checks: dict[str, OffsetIndexCheck | TimeIndexCheck] = {}
        self._transactions: TransactionIndexCheck | None = None

    def read(self) -> Facts:
        facts = self.facts
        facts.batches = facts.records = 0
        facts.tombstones = 0 if self._deep else None
        self._open_indexes()
        end: BatchPlace | None = None
        whole = False
        try:
            file = FILES.open(self._files.path(LOG_SUFFIX))
        except OSError as error:
            self._problem(LOG_SUFFIX, None, reason(error))
            return facts
        try:
            facts.size = file.size()
            for place, data in bodies(file, 0, facts.size):
                self._batch(place, data)
                end = place
                self._progress(place.size)
            whole = self._ends_well(0 if end is None else end.end)
        except (CorruptMessage, OSError) as error:
            self._problem(LOG_SUFFIX, 0 if end is None else end.end, reason(error))
        finally:
            file.close()
        self._close_indexes(end, whole=whole)
        return facts

    def _ends_well(self, end: int) -> bool:
        rest = self.facts.size - end
        if rest and not self._growing:
            self._problem(LOG_SUFFIX, end, f"{rest} bytes that are no whole batch")
        return not rest

    def _batch(self, place: BatchPlace, data: bytes) -> None:
        facts = self.facts
        header = read_header(data.ljust(HEADER_SIZE, b"\0"))
        for problem in self._batch_problems(place, header, data):
            self._problem(LOG_SUFFIX, place.position, problem)
        for suffix, check in self._checks.items():
            self._found(suffix, check.batch(place, header))
        assert facts.batches is not None
        facts.batches += 1
        facts.saw(place, header)
        self._last = place.last_offset

    def _batch_problems(self, place: BatchPlace, header: BatchHeader, data: bytes) -> Iterator[str]:
        assert self.facts.records is not None
        if place.base_offset <= self._last:
            yield f"offset {place.base_offset} after {self._last}"
        if place.last_offset < place.base_offset:
            yield f"last offset {place.last_offset} before base offset {place.base_offset}"
        if not is_sound(data, 0, len(data)):
            yield "the checksum does not match"
            return
        if header.magic == MAGIC:
            yield from self._epoch_problems(header)
            horizon = header.delete_horizon_ms
            if horizon is not None:
                known = self.facts.delete_horizon_ms
                self.facts.delete_horizon_ms = horizon if known is None else min(known, horizon)
        if self._deep:
            yield from self._record_problems(place, header, data)
        else:
            self.facts.records += max(header.record_count, 0) if header.magic == MAGIC else 1

    def _epoch_problems(self, header: BatchHeader) -> Iterator[str]:
        epoch = header.partition_leader_epoch
        if epoch < 0:
            return
        if epoch < self._epoch:
            yield f"leader epoch {epoch} after {self._epoch}"
        self._epoch = epoch
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
            records = records_of(data, check_crc=False)
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
        if header.magic == MAGIC and header.is_control:
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

    def _close_indexes(self, end: BatchPlace | None, *, whole: bool) -> None:
        for suffix, check in self._checks.items():
            self._found(suffix, check.finish(end, whole=whole))
            self._index_facts(suffix, check.entries)
        if self._transactions is not None:
            suffix = TRANSACTION_INDEX_SUFFIX
            found = self._transactions.finish(end, whole=whole, deep=self._deep)
            self._found(suffix, found)
            self._index_facts(suffix, self._transactions.entries)

    def _found(self, suffix: str, findings: Iterator[Finding]) -> None:
        for position, problem in findings:
            self._problem(suffix, position, problem)

    def _index_facts(self, suffix: str, entries: int) -> None:
        file = self._files.name + suffix
        sound = all(problem.file != file for problem in self.facts.problems)
        self.facts.indexes[suffix] = IndexFacts(entries, sound)
