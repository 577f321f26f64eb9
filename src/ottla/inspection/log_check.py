"""Whether the files of a log are sound and agree with each other, in both tiers.

Nothing is changed. What is found is told file by file and goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import METADATA_TOPIC
from ottla.inspection.log_place import Place
from ottla.inspection.producers import snapshot_problems
from ottla.inspection.read_only import FILES
from ottla.inspection.remote_tier import RemoteCopy, RemoteTier
from ottla.inspection.segment import Facts, Problem, SegmentFiles, reason
from ottla.inspection.whole_segment import Progress, WholeSegment
from ottla.storage.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    decode_partition_metadata,
    read_epochs,
)
from ottla.storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.cache import SegmentCache
from ottla.tiered.lineage import Lineage
from ottla.tiered.segments import SegmentState, SegmentUpdate
from ottla.tiered.store import RemoteStoreError


class Summary(NamedTuple):
    """What was looked at."""

    segments: int
    remote_segments: int
    batches: int
    records: int
    problems: list[Problem]


class _Stretch(NamedTuple):
    """Offsets, both inclusive, that some segment has; none when the last is before the first."""

    first: int
    last: int
    file: str


class LogCheck:
    """Looks at every file of one log, in both tiers."""

    def __init__(
        self, place: Place, tier: RemoteTier | None, *, deep: bool, progress: Progress
    ) -> None:
        """``tier`` when the remote part is to be looked at; ``progress`` hears of bytes read."""
        self._place = place
        self._tier = tier
        self._deep = deep
        self._progress = progress
        self._problems: list[Problem] = []
        self._batches = 0
        self._records = 0

    def run(self, copies: Sequence[RemoteCopy], *, local: bool = True) -> Summary:
        """``copies`` are what the remote tier has of it."""
        segments = self._place.segments() if local else []
        for copy in copies:
            self._check_copy(copy)
        stretches = self._check_local(segments)
        if local and self._place.directory is not None:
            self._problems += _small_file_problems(self._place)
            self._problems += self._gaps(copies, stretches)
        elif copies:
            self._problems += self._gaps(copies, [])
        return Summary(len(segments), len(copies), self._batches, self._records, self._problems)

    def _count(self, facts: Facts) -> None:
        self._batches += facts.batches or 0
        self._records += facts.records or 0
        self._problems += facts.problems

    # This disk

    def _check_local(self, segments: Sequence[SegmentFiles]) -> list[_Stretch]:
        epochs = LeaderEpochs(self._place.epochs())
        last, epoch = -1, UNDEFINED_EPOCH
        all_facts = []
        for files in segments:
            segment = WholeSegment(
                files,
                epochs=epochs,
                after=last,
                after_epoch=epoch,
                deep=self._deep,
                growing=self._place.live and files is segments[-1],
                progress=self._progress,
            )
            facts = segment.read()
            epoch = segment.epoch
            self._count(facts)
            all_facts.append(facts)
            last = max(last, files.base_offset - 1, facts.last_offset or -1)
        return self._stretches(segments, all_facts)

    def _stretches(
        self, segments: Sequence[SegmentFiles], all_facts: Sequence[Facts]
    ) -> list[_Stretch]:
        """What the segments have; up to the next one where a log is compacted, or one damaged."""
        place = self._place
        compacted = place.compacted or place.clean_offset is not None
        # A directory that stands alone does not say so, but it shows.
        compacted = compacted or any(facts.has_gaps for facts in all_facts)
        ends = [files.base_offset - 1 for files in segments[1:]]
        found = []
        for files, facts, end in zip_longest(segments, all_facts, ends):
            last = files.base_offset - 1 if facts.last_offset is None else facts.last_offset
            if end is not None and (compacted or facts.problems):
                last = end
            found.append(_Stretch(files.base_offset, last, files.name + LOG_SUFFIX))
        return found

    # The remote store

    def _check_copy(self, copy: RemoteCopy) -> None:
        assert self._tier is not None
        name = self._tier.name(copy) + LOG_SUFFIX
        if copy.problem is not None:
            self._problems.append(Problem(name, None, copy.problem))
        if not copy.is_finished or not self._tier.is_readable or copy.problem is not None:
            return
        try:
            self._count(self._tier.inspect(copy, deep=self._deep, progress=self._progress))
        except (CorruptMessage, CorruptCheckpoint, RemoteStoreError) as error:
            self._problems.append(Problem(name, None, str(error).partition("\n")[0]))

    # Both

    def _gaps(self, copies: Sequence[RemoteCopy], local: Sequence[_Stretch]) -> Iterator[Problem]:
        """Offsets between the log start and the log end that no segment has.

        Where the remote tier is not looked at, nobody knows what it has below the local start.
        """
        stretches = sorted([*self._remote_stretches(copies, local), *local])
        expected = None if self._tier is None else self._place.start_offset
        for first, last, file in stretches:
            if expected is not None and first > expected:
                yield Problem(file, None, f"offsets {expected} to {first - 1} are in no segment")
            expected = max(last + 1, first, expected or 0)

    def _remote_stretches(
        self, copies: Sequence[RemoteCopy], local: Sequence[_Stretch]
    ) -> list[_Stretch]:
        """What a log of these leader epochs finds in the remote store."""
        assert self._tier is not None or not copies
        finished = [copy for copy in copies if copy.is_finished]
        if not finished or self._tier is None:
            return []
        entries = self._place.epochs() or _epochs_of(finished)
        ends = [copy.segment.end_offset + 1 for copy in finished]
        end = max([*ends, *(each.last + 1 for each in local)])
        start = self._place.start_offset or 0
        names = {copy.segment.segment_id: self._tier.name(copy) for copy in finished}
        return [
            _Stretch(
                extent.start_offset,
                extent.end_offset,
                names[extent.segment.segment_id] + LOG_SUFFIX,
            )
            for extent in _cache(finished).extents(Lineage.of(entries, end), start)
        ]


def _cache(finished: Sequence[RemoteCopy]) -> SegmentCache:
    """The remote segments as a broker knows them."""
    cache = SegmentCache()
    for copy in sorted(finished, key=lambda copy: copy.segment.event_timestamp_ms):
        segment = copy.segment._replace(state=SegmentState.COPY_SEGMENT_STARTED)
        cache.replay(segment)
        cache.replay(
            SegmentUpdate(
                segment.partition,
                segment.segment_id,
                SegmentState.COPY_SEGMENT_FINISHED,
                segment.event_timestamp_ms,
                segment.broker_id,
            )
        )
    return cache


def _epochs_of(finished: Sequence[RemoteCopy]) -> list[tuple[int, int]]:
    """The leader epochs that remote segments tell of, where no log does."""
    epochs = LeaderEpochs()
    for epoch, start_offset in sorted(
        {entry for copy in finished for entry in copy.segment.leader_epochs}
    ):
        epochs.assign(epoch, start_offset)
    return list(epochs.entries)


def _small_file_problems(place: Place) -> Iterator[Problem]:
    assert place.directory is not None
    if place.topic != METADATA_TOPIC:
        yield from snapshot_problems(place.directory)
    for name, check in _SMALL_FILES.items():
        path = f"{place.directory}/{name}"
        if FILES.exists(path):
            try:
                check(path)
            except CorruptCheckpoint as error:
                yield Problem(path, None, str(error))
            except OSError as error:
                yield Problem(path, None, reason(error))


_SMALL_FILES: dict[str, Callable[[str], object]] = {
    LEADER_EPOCHS: lambda path: read_epochs(FILES, path),
    PARTITION_METADATA: lambda path: decode_partition_metadata(FILES.read(path)),
}
