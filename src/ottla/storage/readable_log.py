"""A log as its readers see it.

A read answers with a region of a file: no record enters memory. A reader that goes on where a read
ended is found by a small map from offset to position, others by the offset index.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    CorruptMessage,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
)
from ottla.storage.directories import LogDirFailed, LogUnavailable, Retired
from ottla.storage.file_records import first_offset, place_at
from ottla.storage.files import FileRegion, is_disks
from ottla.storage.index_rebuild import IndexRebuild
from ottla.storage.leader_epochs import EpochEnd, LeaderEpochs
from ottla.storage.listener import LogListener
from ottla.storage.open_files import OpenFiles
from ottla.storage.results import FetchedData
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.time_search import TimeSearch, TimestampAndOffset
from ottla.storage.verification import Verifier, Verify

NOTHING_REMOTE: Final = -1
POSITIONS_MAX: Final = 32
"""Readers of a log whose places are remembered."""

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="ReadableLog")


def on_disk(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """An operation that uses the disk and has no way back: an OSError ends the log."""

    @wraps(method)
    def guarded(log: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if log.failure is not None:
            raise log._failed(log.failure)
        open_files = log._open_files
        was_urgent, open_files.is_urgent = open_files.is_urgent, True
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise log._failed(error) from error
        finally:
            open_files.is_urgent = was_urgent

    return guarded


def on_disk_again(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """The same for one that may be tried again: only an error of the disk ends the log."""

    @wraps(method)
    def guarded(log: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if log.failure is not None:
            raise log._failed(log.failure)
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise log._refused(error) from error

    return guarded


class ReadableLog:
    """See the module. A log whose disk has failed refuses everything from then on."""

    __slots__ = (
        "_active",
        "_listener",
        "_open_files",
        "_positions",
        "_verifier",
        "directory",
        "epochs",
        "failure",
        "first_unstable_offset",
        "high_watermark",
        "highest_remote_offset",
        "log_end_offset",
        "log_start_offset",
        "saved_start_offset",
        "segments",
        "successor",
        "truncations",
    )

    def __init__(
        self,
        directory: str,
        segments: Segments,
        epochs: LeaderEpochs,
        listener: LogListener,
        verify: Verify,
        open_files: OpenFiles,
    ) -> None:
        self._listener = listener
        self._open_files = open_files
        self._positions: dict[int, tuple[Segment, int]] = {}
        """Where a reader of that offset finds it."""
        self._active = segments.active
        self.directory = directory
        self.segments = segments
        self.epochs = epochs
        self.failure: OSError | None = None
        self.successor: ReadableLog | None = None
        self.truncations = 0
        """How often something was cut off its end."""
        self.log_start_offset = 0
        self.saved_start_offset = 0
        """The log start as its checkpoint on disk has it, at least."""
        self.log_end_offset = 0
        self.high_watermark = 0
        self.highest_remote_offset = NOTHING_REMOTE
        """The last offset that a finished copy in the remote store has."""
        self.first_unstable_offset: int | None = None
        """Where the first transaction begins that is not decided, or not known to be replicated."""
        self._verifier = Verifier(self, verify)
        for segment in segments:
            segment.on_doubt = listener.indexes_doubted

    def _failed(self, error: OSError) -> LogDirFailed:
        directory = self.directory.rpartition("/")[0]
        if isinstance(self.failure, Retired):
            return LogUnavailable(directory, self.failure)
        failure = LogDirFailed(directory, error)
        if self.failure is None:
            self.failure = error
            self._listener.failed(failure)
        return failure

    def _refused(self, error: OSError) -> LogDirFailed:
        """What becomes of an operation of which a failure leaves nothing behind."""
        if is_disks(error):
            return self._failed(error)
        return LogUnavailable(self.directory.rpartition("/")[0], error)

    def retire(self, successor: "ReadableLog | None" = None) -> None:
        """Refuse everything from now on: the log goes, or ``successor`` has its records.

        Work for it may still be under way, or be asked for by a caller that does not know yet. It
        finds no files, and that is not the disk's fault.
        """
        self.successor = successor
        if self.failure is None:
            self.failure = Retired(f"{self.directory} was deleted or replaced")

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, at_least_one: bool
    ) -> FetchedData:
        """Whole batches from the one that has ``offset`` on, none at or above the upper bound.

        At most ``max_bytes``, or one batch if the first is larger and ``at_least_one``.
        """
        if self.failure is not None:
            raise self._failed(self.failure)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}"
            )
        if offset >= upper_bound_offset:
            return FetchedData(None, offset, offset)
        try:
            place = self._positions.get(offset)
            if place is None or (place[1] >= place[0].size and place[0] is not self._active):
                place = self._find(offset)
                if place is None:
                    return FetchedData(None, offset, offset)
            segment, position = place
            if position < segment.sound_from:
                expected = offset if offset in self._positions else segment.base_offset
                end, next_offset = self._verifier.sound_end(
                    segment, position, expected, max_bytes, upper_bound_offset
                )
            elif segment is self._active and upper_bound_offset >= self.log_end_offset:
                end, next_offset = segment.size, self.log_end_offset
            else:
                end, next_offset = self._end_below(segment, position, upper_bound_offset)
            if end - position > max_bytes:
                end, next_offset = self._cut(segment, position, end, max_bytes, at_least_one)
            if end <= position:
                return FetchedData(None, offset, offset)
            region = FileRegion(segment.file, position, end - position)
        except OSError as error:
            raise self._refused(error) from error
        positions = self._positions
        positions[next_offset] = (segment, end)
        if len(positions) > POSITIONS_MAX:
            del positions[next(iter(positions))]
        return FetchedData(region, offset, next_offset)

    @on_disk_again
    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """The bytes of the batches from ``offset`` to the end of the log, at least one of them.

        OffsetNotAvailable, as in :meth:`read`, while an index is made anew.
        """
        end = self.log_end_offset
        fetched = self.read(offset, max_bytes, upper_bound_offset=end, at_least_one=True)
        return b"" if fetched.region is None else fetched.region.read()

    def _find(self, offset: int) -> tuple[Segment, int] | None:
        """The first batch that ends at or behind ``offset``."""
        if offset < self.segments[0].base_offset:
            raise OffsetMovedToTieredStorage(
                f"offset {offset} is below {self.segments[0].base_offset}, the first one here"
            )
        for segment in self.segments.touching(offset):
            if segment.sound_from:
                place = self._verifier.locate(segment, offset)
            else:
                place = segment.find(offset)
            if place is not None:
                return segment, place.position
        return None

    def _end_below(
        self, segment: Segment, position: int, upper_bound_offset: int
    ) -> tuple[int, int]:
        """Where the batches below ``upper_bound_offset`` end, and the offset behind them."""
        following = self.segments.higher(segment.base_offset)
        if following is not None and following.base_offset <= upper_bound_offset:
            return segment.size, following.base_offset
        known = self._positions.get(upper_bound_offset)
        if known is not None and known[0] is segment:
            return known[1], upper_bound_offset
        place = segment.find(upper_bound_offset, position)
        if place is None:
            return segment.size, upper_bound_offset
        return place.position, min(first_offset(segment.file, place), upper_bound_offset)

    def _cut(
        self, segment: Segment, position: int, end: int, max_bytes: int, at_least_one: bool
    ) -> tuple[int, int]:
        found = segment.cut(position, position + max_bytes)
        if found is not None:
            return found
        first = place_at(segment.file, position, end) if at_least_one else None
        return (position, -1) if first is None else (first.end, first.last_offset + 1)

    @on_disk_again
    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of those that have records between the offsets."""
        found: list[tuple[int, int]] = []
        for segment in self.segments.touching(offset):
            if not segment.transaction_index.is_trusted:
                self._check_transaction_index(segment)
            for entry in segment.transaction_index.entries:
                if entry.last_offset >= offset and entry.first_offset < upper_bound_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= upper_bound_offset:
                    return found
        return found

    def _check_transaction_index(self, segment: Segment) -> None:
        """Compare the index with what else says which transactions were aborted."""

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not older than ``timestamp``."""
        search = self.next_time_search(timestamp)
        while search is not None:
            found = self._run_time_search(search)
            if found is not None:
                return found
            search = self.next_time_search(timestamp, search)
        return None

    async def find_by_time(self, timestamp: int, scheduler: Scheduler) -> TimestampAndOffset | None:
        """The same elsewhere than on the loop: a segment may have to be read from end to end."""
        search = self.next_time_search(timestamp)
        while search is not None:
            truncations, found = self.truncations, None
            try:
                found = await scheduler.run_in_background(
                    search.run, self.directory.rpartition("/")[0]
                )
            except OSError as error:
                raise self._refused(error) from error
            except CorruptMessage:
                if self.truncations == truncations:
                    raise
            if self.truncations != truncations:  # what was read may have been two logs' in part
                search = self.next_time_search(timestamp)
            elif found is not None:
                return found
            else:
                search = self.next_time_search(timestamp, search)
        return None

    @on_disk_again
    def next_time_search(
        self, timestamp: int, before: TimeSearch | None = None
    ) -> TimeSearch | None:
        """Where a record that is not older than ``timestamp`` is to be looked for next.

        In the segment that now has the offsets behind what ``before`` has searched; None when
        nothing is left. The search may run elsewhere.
        """
        start_offset = self.log_start_offset
        if before is not None:
            if before.next_offset is None:
                return None
            start_offset = max(start_offset, before.next_offset)
        for segment in self.segments.touching(start_offset):
            if segment.may_have(timestamp):
                following = self.segments.higher(segment.base_offset)
                next_offset = None if following is None else following.base_offset
                return segment.prepare_time_search(timestamp, start_offset, next_offset)
        return None

    @on_disk_again
    def _run_time_search(self, search: TimeSearch) -> TimestampAndOffset | None:
        return search.run()

    # Indexes that mislead

    @on_disk_again
    def prepare_rebuild(self, segment: Segment) -> IndexRebuild | None:
        """The indexes of a closed segment, to be made anew elsewhere; None if it has gone."""
        if segment.is_dense or not self._is_closed(segment):
            return None
        return segment.prepare_rebuild(self.truncations)

    @on_disk_again
    def rebuilt(self, segment: Segment, rebuild: IndexRebuild, error: OSError | None) -> None:
        """They were; if they are not those of the batches now, a reader asks again."""
        if isinstance(error, FileNotFoundError) and segment.path != rebuild.segment.path:
            return  # the directory of the log has another name
        if error is not None:
            raise error
        if (
            self._is_closed(segment)
            and segment.size == rebuild.segment.size
            and self.truncations == rebuild.truncations
        ):
            segment.take_indexes(rebuild)
        else:
            rebuild.discard()

    def _is_closed(self, segment: Segment) -> bool:
        return self.segments.floor(segment.base_offset) is segment and not segment.active

    @on_disk_again
    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all."""
        segments = [segment for segment in self.segments if segment.size]
        if not segments:
            return None
        return max(segments, key=Segment.largest_timestamp).find_max_timestamp()

    # Offsets

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    @property
    def local_log_start_offset(self) -> int:
        """Records below lie in the remote store alone."""
        return max(self.log_start_offset, self.segments[0].base_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided, and the decision replicated."""
        first = self.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if first is None or first > high_watermark else first

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``; -1 if nobody knows."""
        return self.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        if epoch != self.epochs.latest_epoch:
            self._check_epoch_behind(epoch)
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @on_disk_again
    def _check_epoch_behind(self, epoch: int) -> None:
        self._verifier.check_epoch_behind(epoch)

    def size(self) -> int:
        return self.segments.size()
