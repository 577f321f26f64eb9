"""The segments of a log in both tiers as rows, and what they come to in all.

A closed segment whose finished copy has just its offsets is one row of tier ``both``. What only a
look into the batches tells (counts, tombstones, delete horizon) is there if it was ``deep``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import uuid_text
from ottla.inspection.log_place import Place
from ottla.inspection.remote_tier import RemoteCopy, RemoteTier
from ottla.inspection.segment import (
    INDEX_SUFFIXES,
    Facts,
    IndexFacts,
    Problem,
    SegmentFiles,
    read_ends,
)
from ottla.inspection.whole_segment import Progress, WholeSegment
from ottla.storage.checkpoints import CorruptCheckpoint
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.offset_index import ENTRY as OFFSET_ENTRY
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.storage.time_index import ENTRY as TIME_ENTRY
from ottla.storage.transaction_index import ENTRY as TRANSACTION_ENTRY
from ottla.tiered.store import RemoteStoreError

LOCAL: Final = "local"
REMOTE: Final = "remote"
BOTH: Final = "both"
CLEAN: Final = "clean"
DIRTY: Final = "dirty"

_ENTRY_SIZES: Final = {
    OFFSET_INDEX_SUFFIX: OFFSET_ENTRY.size,
    TIME_INDEX_SUFFIX: TIME_ENTRY.size,
    TRANSACTION_INDEX_SUFFIX: TRANSACTION_ENTRY.size,
}
DEEP_FACTS: Final = ("batches", "records", "tombstones", "delete_horizon_ms")

Row = Mapping[str, object]


class Survey(NamedTuple):
    """The segments of a log, the log as a whole, and what cannot be right."""

    segments: list[Row]
    partition: Row
    problems: list[Problem]


class LogSurvey:
    """Looks at one log."""

    def __init__(
        self, place: Place, tier: RemoteTier | None, *, deep: bool, progress: Progress
    ) -> None:
        self._place = place
        self._tier = tier
        self._deep = deep
        self._progress = progress
        self._problems: list[Problem] = []

    def run(self, copies: Sequence[RemoteCopy], *, local: bool = True) -> Survey:
        epochs = LeaderEpochs(self._place.epochs())
        files = self._place.segments() if local else []
        facts = [self._facts(each, epochs, each is files[-1]) for each in files]
        for each in facts:
            self._problems += each.problems
        ends = [
            *(each.base_offset - 1 for each in files[1:]),
            *(-1 if each.last_offset is None else each.last_offset for each in facts[-1:]),
        ]
        paired = _pairs(files, ends, copies)
        rows: list[dict[str, Any]] = [
            self._local_row(each, fact, epochs, paired.get(each.base_offset), each is files[-1])
            for each, fact in zip(files, facts, strict=True)
        ]
        taken = [copy.segment.segment_id for copy in paired.values()]
        rows += [self._remote_row(copy) for copy in copies if copy.segment.segment_id not in taken]
        rows.sort(key=lambda row: row["base_offset"])
        return Survey(list(rows), self._partition(rows, copies), self._problems)

    def _facts(self, files: SegmentFiles, epochs: LeaderEpochs, is_last: bool) -> Facts:
        if not self._deep:
            return read_ends(files)
        growing = self._place.live and is_last
        return WholeSegment(files, epochs=epochs, growing=growing, progress=self._progress).read()

    # Rows

    def _row(self, tier: str, base_offset: int) -> dict[str, Any]:
        place = self._place
        return {
            "topic": place.topic,
            "partition": place.partition,
            "tier": tier,
            "base_offset": base_offset,
        }

    def _local_row(
        self,
        files: SegmentFiles,
        facts: Facts,
        epochs: LeaderEpochs,
        copy: RemoteCopy | None,
        is_active: bool,
    ) -> dict[str, Any]:
        last = facts.last_offset
        return {
            **self._row(LOCAL if copy is None else BOTH, files.base_offset),
            "last_offset": last,
            "active": is_active,
            **_fact_fields(facts, deep=self._deep),
            "leader_epochs": [] if last is None else _epochs(epochs, files.base_offset, last),
            "indexes": _index_fields(facts.indexes),
            "cleaning": self._cleaning(files.base_offset),
            **_remote_fields(copy),
        }

    def _remote_row(self, copy: RemoteCopy) -> dict[str, Any]:
        segment = copy.segment
        facts = self._remote_facts(copy)
        return {
            **self._row(REMOTE, segment.start_offset),
            "last_offset": segment.end_offset if segment.end_offset >= 0 else None,
            "active": False,
            **_fact_fields(facts, deep=self._deep),
            "leader_epochs": [entry.epoch for entry in segment.leader_epochs],
            "indexes": _index_fields(facts.indexes),
            "cleaning": self._cleaning(segment.start_offset),
            **_remote_fields(copy),
        }

    def _remote_facts(self, copy: RemoteCopy) -> Facts:
        """As it was told, or if it is to be deep as it lies there."""
        time = copy.segment.max_timestamp_ms
        facts = Facts(size=copy.size, last_timestamp=time if time >= 0 else None)
        for suffix, entry_size in _ENTRY_SIZES.items():
            if copy.sizes is not None and suffix in copy.sizes:
                facts.indexes[suffix] = IndexFacts(copy.sizes[suffix] // entry_size, sound=None)
        tier = self._tier
        assert tier is not None
        name = tier.name(copy) + LOG_SUFFIX
        if copy.problem is not None:
            self._problems.append(Problem(name, None, copy.problem))
            return facts
        if not self._deep or not tier.is_readable or not copy.is_finished:
            return facts
        try:
            facts = tier.inspect(copy, progress=self._progress)
        except (CorruptMessage, CorruptCheckpoint, RemoteStoreError) as error:
            self._problems.append(Problem(name, None, str(error).partition("\n")[0]))
            return facts
        self._problems += facts.problems
        return facts

    # Compaction

    @property
    def _clean_offset(self) -> int | None:
        """None when the log is not one that is compacted, as far as is known."""
        place = self._place
        if place.clean_offset is not None:
            return place.clean_offset
        return (place.start_offset or 0) if place.compacted else None

    def _cleaning(self, base_offset: int) -> str | None:
        clean_offset = self._clean_offset
        if clean_offset is None:
            return None
        return CLEAN if base_offset < clean_offset else DIRTY

    def _dirty_ratio(self, rows: Sequence[Row]) -> float | None:
        """Of the bytes that the cleaner may look at: not those of the active segment."""
        if self._clean_offset is None:
            return None
        sizes = {CLEAN: 0, DIRTY: 0}
        for row in rows:
            if row["tier"] != REMOTE and not row["active"]:
                sizes[str(row["cleaning"])] += int(str(row["size"]))
        total = sum(sizes.values())
        return round(sizes[DIRTY] / total, 4) if total else 0.0

    # In all

    def _partition(self, rows: Sequence[dict[str, Any]], copies: Sequence[RemoteCopy]) -> Row:
        place = self._place
        local = [row for row in rows if row["tier"] != REMOTE]
        finished = [copy for copy in copies if copy.is_finished]
        starts = [row["base_offset"] for row in local[:1]]
        first = starts + [copy.segment.start_offset for copy in finished]
        ends = [
            row["base_offset"] if row["last_offset"] is None else row["last_offset"] + 1
            for row in local[-1:]
        ]
        start = min(first, default=None) if place.start_offset is None else place.start_offset
        local_size = sum(row["size"] for row in local) if local else place.local_size
        return {
            "topic": place.topic,
            "partition": place.partition,
            "directory": place.directory,
            "segments": len(rows),
            "local_size": local_size,
            "remote_size": sum(copy.size for copy in finished) if self._tier else None,
            "log_start_offset": start,
            "local_log_start_offset": _first(place.local_start_offset, _above(starts, start)),
            "log_end_offset": _first(place.end_offset, ends),
            "clean_offset": place.clean_offset,
            "dirty_ratio": self._dirty_ratio(rows),
        }


def _first(known: int | None, seen: Sequence[int]) -> int | None:
    return next(iter(seen), None) if known is None else known


def _above(offsets: Sequence[int], start: int | None) -> list[int]:
    return [max(offset, start or 0) for offset in offsets]


def _pairs(
    files: Sequence[SegmentFiles], ends: Sequence[int], copies: Sequence[RemoteCopy]
) -> dict[int, RemoteCopy]:
    """The newest finished copies of just the offsets of segments here, by their base offsets."""
    here = {each.base_offset: end for each, end in zip(files, ends, strict=True)}
    return {
        copy.segment.start_offset: copy
        for copy in copies
        if copy.is_finished and here.get(copy.segment.start_offset) == copy.segment.end_offset
    }


def _fact_fields(facts: Facts, *, deep: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "size": facts.size,
        "first_timestamp": facts.first_timestamp,
        "last_timestamp": facts.last_timestamp,
    }
    if deep:
        fields |= {name: getattr(facts, name) for name in DEEP_FACTS}
    return fields


def _epochs(epochs: LeaderEpochs, first: int, last: int) -> list[int]:
    """The leader epochs that have records between two offsets."""
    found = [entry.epoch for entry in epochs.entries if first < entry.start_offset <= last]
    begin = epochs.epoch_for_offset(first)
    return ([begin] if begin >= 0 else []) + found


def _index_fields(indexes: dict[str, IndexFacts]) -> dict[str, Any]:
    return {suffix[1:]: indexes[suffix]._asdict() for suffix in INDEX_SUFFIXES if suffix in indexes}


def _remote_fields(copy: RemoteCopy | None) -> dict[str, Any]:
    if copy is None:
        return {"remote_state": None, "segment_id": None}
    # Only in the store: the rest of a copy that was broken off, or the beginning of a new one.
    return {
        "remote_state": "NOT_IN_METADATA" if copy.told is False else copy.segment.state.name,
        "segment_id": uuid_text(copy.segment.segment_id),
    }
