"""One segment and its indexes: where they lie, and what a look at their ends tells.

Nothing is changed, and whatever is damaged is a :class:`Problem` and never an exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import ApiError
from ottla.inspection.indexes import TransactionIndexCheck, read_entries
from ottla.inspection.read_only import FILES
from ottla.records.batch import MAGIC, BatchHeader
from ottla.storage.file_records import BatchPlace, headers, place_at
from ottla.storage.files import File
from ottla.storage.offset_index import ENTRY as OFFSET_ENTRY
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.time_index import ENTRY as TIME_ENTRY

INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
PROBLEMS_MAX: Final = 100
"""Of one file: a person who has read so many has seen enough."""


class Problem(NamedTuple):
    """Something that should not be so."""

    file: str
    position: int | None
    problem: str


class SegmentFiles(NamedTuple):
    """Where the files of a segment lie, and what they are called before people."""

    directory: str
    base_offset: int
    name: str
    """All but the suffix."""

    @staticmethod
    def local(directory: str, base_offset: int) -> "SegmentFiles":
        return SegmentFiles(directory, base_offset, f"{directory}/{base_offset:020d}")

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"

    def has(self, suffix: str) -> bool:
        return FILES.exists(self.path(suffix))


class IndexFacts(NamedTuple):
    entries: int
    sound: bool | None
    """None when nobody has looked."""


@dataclass
class Facts:
    """What was found out about a segment; None where nobody has looked, or there is nothing."""

    size: int = 0
    last_offset: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    batches: int | None = None
    records: int | None = None
    tombstones: int | None = None
    delete_horizon_ms: int | None = None
    """The earliest one: when the first tombstones and markers may go."""
    has_gaps: bool = False
    """Whether offsets are missing between its batches, as after a cleaning."""
    indexes: dict[str, IndexFacts] = field(default_factory=dict)
    """By suffix."""
    problems: list[Problem] = field(default_factory=list)

    def saw(self, place: BatchPlace, header: BatchHeader) -> None:
        """Offsets and timestamps of a batch behind those that were seen before."""
        self.last_offset = place.last_offset
        if header.max_timestamp >= 0 or header.magic == MAGIC:  # format 0 tells none
            if self.first_timestamp is None:
                horizon = header.delete_horizon_ms is not None
                self.first_timestamp = header.max_timestamp if horizon else header.base_timestamp
            self.saw_timestamp(header.max_timestamp)

    def saw_timestamp(self, timestamp: int) -> None:
        known = self.last_timestamp
        self.last_timestamp = timestamp if known is None else max(known, timestamp)


def read_ends(files: SegmentFiles) -> Facts:
    """What the first batch, the last ones and the ends of the indexes tell; quick."""
    facts = Facts()
    problem = Problems(files, facts)
    try:
        file = FILES.open(files.path(LOG_SUFFIX))
    except OSError as error:
        problem(LOG_SUFFIX, None, reason(error))
        return facts
    try:
        facts.size = file.size()
        start = _last_indexed(files, file, facts)
        _saw_last_time_entry(files, facts)
        if files.has(TRANSACTION_INDEX_SUFFIX):
            check = TransactionIndexCheck(files.path(TRANSACTION_INDEX_SUFFIX), files.base_offset)
            found = list(check.finish(whole=False))
            facts.indexes[TRANSACTION_INDEX_SUFFIX] = IndexFacts(check.entries, not found)
        if start:
            _see(islice(headers(file, 0, facts.size), 1), facts)
        _see(headers(file, start, facts.size), facts)
    except (ApiError, OSError) as error:
        problem(LOG_SUFFIX, None, reason(error))
    finally:
        file.close()
    return facts


def _see(batches: Iterable[tuple[int, BatchHeader]], facts: Facts) -> None:
    for position, header in batches:
        place = BatchPlace(position, header.size, header.base_offset, header.last_offset)
        facts.saw(place, header)


def _last_indexed(files: SegmentFiles, file: File, facts: Facts) -> int:
    """Where the last batch with an entry begins; 0 when the index does not lead to one."""
    entries = _entries(files, OFFSET_INDEX_SUFFIX, OFFSET_ENTRY, facts)
    if entries is None or entries.last is None:
        return 0
    relative, position = entries.last
    place = place_at(file, position, facts.size) if position >= 0 else None
    if place is None or place.last_offset != files.base_offset + relative:
        facts.indexes[OFFSET_INDEX_SUFFIX] = IndexFacts(entries.number, sound=False)
        return 0
    return position


def _saw_last_time_entry(files: SegmentFiles, facts: Facts) -> None:
    entries = _entries(files, TIME_INDEX_SUFFIX, TIME_ENTRY, facts)
    if entries is not None and entries.last is not None and facts.indexes[TIME_INDEX_SUFFIX].sound:
        facts.saw_timestamp(entries.last[0])


class _Entries(NamedTuple):
    number: int
    last: tuple[int, ...] | None


def _entries(files: SegmentFiles, suffix: str, struct: Struct, facts: Facts) -> _Entries | None:
    """How many an index has and the last of them; None when there is no index."""
    if not files.has(suffix):
        return None
    path = files.path(suffix)
    count, last = 0, None
    grows = FILES.size(path) % struct.size == 0
    for _, entry in read_entries(path, struct):
        grows &= last is None or last <= entry
        count, last = count + 1, entry
    facts.indexes[suffix] = IndexFacts(count, grows)
    return _Entries(count, last)


class Problems:
    """Takes down what is found in the files of a segment."""

    def __init__(self, files: SegmentFiles, facts: Facts) -> None:
        self._name = files.name
        self._problems = facts.problems
        self._counts: dict[str, int] = {}

    def __call__(self, suffix: str, position: int | None, problem: str) -> None:
        count = self._counts[suffix] = self._counts.get(suffix, 0) + 1
        if count == PROBLEMS_MAX:
            position, problem = None, "more problems than are listed"
        if count <= PROBLEMS_MAX:
            self._problems.append(Problem(self._name + suffix, position, problem))


def reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
