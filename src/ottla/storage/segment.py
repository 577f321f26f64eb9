"""A segment: a file of record batches from a base offset on, and the indexes beside it.

Only the last segment of a log is appended to. While it is, its indexes are in memory and its file
stays open; rolling or closing writes them out. A closed segment costs nothing until it is read.

When an index gets an entry is Kafka's rule, so that files are equal byte for byte: before a batch,
if more than ``index.interval.bytes`` were written since the batch of the last entry.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.common.errors import OffsetNotAvailable
from ottla.records.batch import NO_TIMESTAMP
from ottla.records.compression import ACCEPTED_MAX
from ottla.storage.file_records import (
    BatchPlace,
    SearchedTooLong,
    find_end,
    find_offset,
    first_offset,
    place_at,
)
from ottla.storage.files import Data, File, Filesystem
from ottla.storage.index_rebuild import IndexRebuild
from ottla.storage.inspection import Inspection, SoundBatch
from ottla.storage.leader_epochs import OFFSET_MAX
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.stretches import Stretches
from ottla.storage.time_index import TimeIndex
from ottla.storage.time_search import SegmentView, TimeSearch, TimestampAndOffset
from ottla.storage.time_witnesses import entry_holds, newest, tells_newest
from ottla.storage.transaction_index import TransactionIndex

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEARCH_MAX: Final = 1 << 20
"""Bytes that are searched at once; with an index that is right a small part of it is enough."""
INDEX_INTERVAL_MAX: Final = SEARCH_MAX // 4
"""However wide ``index.interval.bytes`` is: a fetch must find its place."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of_file(name: str) -> int | None:
    """The offset that a file is named by; None for files that are named otherwise."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


class SegmentLimits(NamedTuple):
    """When a segment is full, and how dense its indexes are."""

    size_max: int
    age_max_ms: int
    index_size_max: int
    index_interval_bytes: int


class Segment:
    """See the module. ``size`` is how much of the file counts: appends go there."""

    __slots__ = (
        "_bytes_since_entry",
        "_file",
        "_filesystem",
        "_index_interval_bytes",
        "_indexes_full",
        "_max_known",
        "_open_files",
        "active",
        "age_max_ms",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_room",
        "is_damaged",
        "is_dense",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "on_doubt",
        "size",
        "size_max",
        "sound_from",
        "stretches",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        base_offset: int,
        *,
        limits: SegmentLimits,
        open_files: OpenFiles,
        created_ms: int = 0,
    ) -> None:
        self._filesystem = filesystem
        self._open_files = open_files
        self._file: File | None = None
        self._index_interval_bytes = min(limits.index_interval_bytes, INDEX_INTERVAL_MAX)
        self._bytes_since_entry = 0
        self._indexes_full = False
        self.index_room = 0
        """How many batches may come before the indexes can be full; known while it is active."""
        self._max_known = True
        self.is_dense = False
        """Whether the indexes were made anew: with an entry wherever there can be one."""
        self.is_damaged = False
        """Whether the indexes were made without some batches: nobody knows how new those are."""
        self.on_doubt: Callable[[Segment], None] | None = None
        """Sees to new indexes when those on disk mislead."""
        self.active = False
        self.base_offset = base_offset
        self.size = 0
        self.created_ms = created_ms
        self.size_max = limits.size_max
        self.age_max_ms = limits.age_max_ms
        self.first_timestamp = NO_TIMESTAMP
        """Of the first batch; by it the age of the segment is counted."""
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.offset_index = OffsetIndex(filesystem, "", base_offset, limits.index_size_max)
        self.time_index = TimeIndex(filesystem, "", base_offset, limits.index_size_max)
        self.transaction_index = TransactionIndex(filesystem, "", base_offset)
        self.sound_from = 0
        """From here on the bytes are known to be as they were written; see ``verification``."""
        self.stretches = Stretches()
        """Before that, what was found to be."""
        self.move_to(directory)

    def move_to(self, directory: str) -> None:
        """Its files lie in ``directory`` now."""
        prefix = f"{directory}/{self.base_offset:020d}"
        self.directory = directory
        self.offset_index.path = prefix + OFFSET_INDEX_SUFFIX
        self.time_index.path = prefix + TIME_INDEX_SUFFIX
        self.transaction_index.path = prefix + TRANSACTION_INDEX_SUFFIX

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.base_offset:020d}{LOG_SUFFIX}"

    def paths(self) -> list[str]:
        """Of all files that it may have, the batches first."""
        indexes = self.offset_index, self.time_index, self.transaction_index
        return [self.path, *(index.path for index in indexes)]

    def found_on_disk(self) -> None:
        self.size = self.sound_from = self._filesystem.size(self.path)
        self._max_known = self.size == 0

    def create_files(self) -> None:
        """Make the files of a new, empty segment."""
        open_file = self._filesystem.open
        open_file(self.path, create=True).close()
        open_file(self.offset_index.path, create=True).close()
        open_file(self.time_index.path, create=True).close()
        self.transaction_index.is_trusted = True

    # The file

    @property
    def file(self) -> File:
        """The open file of batches."""
        file = self._file
        if file is None:
            stays = not self._open_files.is_urgent
            file = self._file = self._filesystem.open(self.path, stays=stays)
            if not self.active:
                self._open_files.add(self)
        return file

    def let_go(self) -> None:
        """Keep the file open no longer than its readers do."""
        self._file = None

    def activate(self) -> None:
        """Get ready for appends."""
        self._file = self.file
        self._open_files.discard(self)
        self.active = True
        if not self.has_whole_indexes():
            self.rebuild_indexes()
        if not self._max_known:
            self._find_out_max_timestamp()
        self.load_first_timestamp()
        self._check_indexes_full()

    def load_first_timestamp(self) -> int:
        """What the header of the first batch says, or -1; read once."""
        if self.first_timestamp < 0 and self.size:
            first = next(self.sound_batches(), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first.header.max_timestamp
        return self.first_timestamp

    def _check_indexes_full(self) -> None:
        self._indexes_full = self.offset_index.is_full() or self.time_index.is_full()
        self.index_room = min(self.offset_index.room(), self.time_index.room())

    # Appending

    def append(self, data: Data, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch of ``size`` bytes."""
        position = self.size
        self._file.write_at(position, data)  # type: ignore[union-attr] # open while active
        if position == 0:
            self.first_timestamp = max_timestamp
        self.size = position + size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self._add_entries(last_offset, position)
            self._bytes_since_entry = size
        else:
            self._bytes_since_entry += size

    def append_several(self, data: Data, batches: list[tuple[int, int, int]]) -> None:
        """Write batches one behind the other; of each its size, last offset and max timestamp."""
        position = self.size
        self._file.write_at(position, data)  # type: ignore[union-attr] # open while active
        if position == 0:
            self.first_timestamp = max(timestamp for _, _, timestamp in batches)
        for size, last_offset, max_timestamp in batches:
            self.index(position, size, last_offset, max_timestamp)
            position += size
        self.size = position

    def index(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self._add_entries(last_offset, position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def _add_entries(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._check_indexes_full()

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether an append of that kind belongs into a new segment."""
        if self.size > self.size_max - size:
            return True
        if self.size:
            first = self.first_timestamp
            waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if waited_ms > self.age_max_ms:
                return True
        return self._indexes_full or last_offset - self.base_offset > RELATIVE_OFFSET_MAX

    def close_indexes(self) -> None:
        """Write the indexes out, with the entry that ends a segment's time index."""
        if self.active:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.save()
        self.time_index.save()

    def roll(self) -> None:
        """Become a closed segment."""
        self.close_indexes()
        self.transaction_index.drop()
        self.active = False
        if self._file is not None:
            self._open_files.add(self)

    def close(self) -> None:
        self.close_indexes()
        self.abandon()

    def abandon(self) -> None:
        """Let go of everything without writing: the disk may be gone."""
        self.active = False
        self.offset_index.drop()
        self.time_index.drop()
        self.transaction_index.drop()
        self._open_files.discard(self)
        self._file = None
        self._max_known = self.size == 0

    def has_whole_indexes(self) -> bool:
        """Whether their files can be indexes at all."""
        return self.offset_index.has_whole_entries() and self.time_index.has_whole_entries()

    def index_paths(self) -> list[str]:
        """The files that are to be synced with the batches; those of the active one are stale."""
        paths = [] if self.active else [self.offset_index.path, self.time_index.path]
        if self.transaction_index.entries:
            paths.append(self.transaction_index.path)
        return paths

    # Finding

    def find(self, offset: int, from_position: int = 0) -> BatchPlace | None:
        """Like :meth:`locate`, for a caller that can ask again.

        OffsetNotAvailable while the index leads nowhere near: it is made anew then, elsewhere.
        """
        if self.size == 0:
            return None
        position = max(self.near(offset)[0], from_position)
        if position < self.sound_from:
            return self.locate(offset, from_position)
        try:
            return find_offset(self.file, position, self.size, offset, self.search_max)
        except SearchedTooLong:
            self.doubt()
        return self.locate(offset, from_position)

    def locate(self, offset: int, from_position: int = 0) -> BatchPlace | None:
        """The first batch, from a position on, whose last offset is not below ``offset``.

        What is damaged is passed over.
        """
        if self.size == 0:
            return None
        position, expected = self.anchor(offset)
        if position < from_position:
            position, expected = from_position, self.base_offset
        if position >= self.sound_from:
            return find_offset(self.file, position, self.size, offset)
        for batch in self.sound_batches(position, expected):
            if batch.place.last_offset >= offset:
                return batch.place
        return None

    # What is known to be as it was written

    def is_known_sound(self, position: int, end: int) -> bool:
        if position >= self.sound_from:
            return True
        stretch = self.stretches.reaching(position)
        return stretch is not None and end <= stretch.end

    def found_sound(self, start: int, end: int, next_offset: int) -> None:
        """The batches there were inspected."""
        if self.is_known_sound(start, end):
            return
        stretch = self.stretches.add(start, end, next_offset)
        if stretch.end >= self.sound_from:
            self.stretches.remove(stretch)
            self.sound_from = stretch.start

    def sound_batches(self, position: int = 0, expected: int | None = None) -> Iterator[SoundBatch]:
        """Those from ``position`` on, where one from ``expected`` begins, that are not damaged."""
        expected = self.base_offset if expected is None else expected
        for found in Inspection(self).walk(position, expected):
            if isinstance(found, SoundBatch):
                yield found

    def anchor(self, offset: int) -> tuple[int, int]:
        """Where to begin the search for ``offset``, and the first offset of the batch there.

        Batch and index agree on it; an index that misleads is rebuilt.
        """
        found = self._indexed(offset)
        if found is None:
            self.rebuild_indexes()
            found = self._indexed(offset)
        return found or (0, self.base_offset)

    def near(self, offset: int) -> tuple[int, int]:
        """Like :meth:`anchor`, for a caller that can ask again; see :meth:`find`."""
        found = self._indexed(offset)
        if found is not None:
            return found
        self.doubt()
        return self.anchor(offset)

    @property
    def search_max(self) -> int | None:
        """How much behind an anchor is searched before the index is doubted."""
        return None if self.is_dense else SEARCH_MAX

    def _indexed(self, offset: int) -> tuple[int, int] | None:
        """The anchor that the index knows; None when the batch is not there."""
        entry = self.offset_index.lookup(offset)
        if entry is None:
            return 0, self.base_offset
        place = self._batch_by(entry)
        return None if place is None else (place.position, first_offset(self.file, place))

    def _batch_by(self, entry: tuple[int, int]) -> BatchPlace | None:
        """Where an entry of the offset index leads to; None when the batch is not there."""
        last_offset, position = entry
        place = place_at(self.file, position, self.size) if 0 <= position < self.size else None
        return place if place is not None and place.last_offset == last_offset else None

    def cut(self, position: int, limit: int) -> tuple[int, int] | None:
        """Where the whole batches from ``position`` to ``limit`` end, and the offset behind them.

        None when not even the first of them fits.
        """
        entry = self.offset_index.lookup_position(limit)
        begin = None if entry is None or entry[1] <= position else self._batch_by(entry)
        if begin is not None:
            position = begin.position
        last = find_end(self.file, position, limit)
        if last is not None:
            return last.end, last.last_offset + 1
        return None if begin is None else (position, first_offset(self.file, begin))

    def sound_end(self, upper_offset: int) -> tuple[int, bool]:
        """The offset behind the last sound batch, and whether that batch ends the file."""
        next_offset, is_whole = self.base_offset, True
        if self.size:
            entry = self.offset_index.last_entry()
            start = (0, self.base_offset) if entry is None else self.anchor(entry[0])
            for found in Inspection(self, upper_offset=upper_offset).walk(*start):
                is_whole = isinstance(found, SoundBatch)
                if isinstance(found, SoundBatch):
                    next_offset = found.place.last_offset + 1
        return next_offset, is_whole

    def may_have(self, timestamp: int) -> bool:
        """Whether there may be a record that is not older."""
        return self.size > 0 and (self.largest_timestamp() >= timestamp or self.is_damaged)

    def known_largest_timestamp(self) -> int | None:
        """What :meth:`largest_timestamp` says; None while that must be found out, elsewhere."""
        try:
            return self.largest_timestamp()
        except OffsetNotAvailable:
            return None

    def largest_timestamp(self) -> int:
        """Of its records; of its file when they have none."""
        if not self._max_known:
            self._find_out_max_timestamp()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self._filesystem.modified_ms(self.path)

    def _find_out_max_timestamp(self) -> None:
        entry = self.time_index.last_entry()
        is_right = tells_newest(self, entry)
        if self._max_known:  # they were made anew on the way
            return
        if not is_right:
            self.doubt()
        elif entry is not None:
            self.max_timestamp, self.offset_of_max_timestamp = entry
        self._max_known = True

    def view(self) -> SegmentView:
        """As it is now, for what may run elsewhere."""
        return SegmentView(
            self.path, self.base_offset, self.file, self.size, self.offset_index, self.sound_from
        )

    def prepare_time_search(
        self, timestamp: int, start_offset: int, next_offset: int | None = None
    ) -> TimeSearch:
        """For the first record from ``start_offset`` on that is not older than ``timestamp``."""
        entry = self._time_entry(timestamp)
        offset = start_offset if entry is None else max(entry[1], start_offset)
        return TimeSearch(
            self.view(), self.near(offset), offset, timestamp, start_offset, next_offset
        )

    def _time_entry(self, timestamp: int) -> tuple[int, int] | None:
        """The last one that is not above ``timestamp``, if a batch bears it out."""
        entry = self.time_index.lookup(timestamp)
        if entry is None or entry_holds(self, entry):
            return entry
        self.doubt()
        return self.time_index.lookup(timestamp)  # it was made anew of the batches

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record that has the largest timestamp."""
        if not self._max_known:
            self._find_out_max_timestamp()
        if self.max_timestamp < 0:
            return None
        offset = self.offset_of_max_timestamp
        # Nothing is newer; what is not older in its batch, and behind, is as new.
        return TimeSearch(
            self.view(), self.near(offset), offset, self.max_timestamp, self.base_offset, None
        ).run()

    # Repairing

    def begin_rebuild(self) -> None:
        """Empty the indexes, in memory; :meth:`index` then takes the batches in order."""
        self.offset_index.reset()
        self.time_index.reset()
        self._bytes_since_entry = 0
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self.is_damaged = False
        self._max_known = self.is_dense = True

    def end_rebuild(self, *, at_once: bool) -> None:
        """Write the indexes, unless they are needed in memory; see :meth:`Index.save`."""
        self._bytes_since_entry = 0
        if self.active:
            self._check_indexes_full()
        else:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self.offset_index.save(at_once=at_once)
            self.time_index.save(at_once=at_once)

    def prepare_rebuild(self, truncations: int = 0) -> IndexRebuild:
        """Of offset and time index; :meth:`take_indexes` takes over what it makes."""
        return IndexRebuild(
            self._filesystem,
            self.view(),
            (self.offset_index.path, self.time_index.path),
            interval_bytes=self._index_interval_bytes,
            truncations=truncations,
        )

    def take_indexes(self, rebuild: IndexRebuild) -> None:
        """Those that :meth:`IndexRebuild.run_aside` has written down."""
        rebuild.put_in_place(self.offset_index.path, self.time_index.path)
        self.offset_index.drop()
        self.time_index.drop()
        self._know_by(rebuild)

    def rebuild_indexes(self) -> None:
        """All of that here and now."""
        rebuild = self.prepare_rebuild()
        rebuild.run()
        self.offset_index.replace(rebuild.offsets)
        self.time_index.replace(rebuild.times)
        self._know_by(rebuild)
        self.end_rebuild(at_once=True)

    def _know_by(self, rebuild: IndexRebuild) -> None:
        self.max_timestamp = rebuild.max_timestamp
        self.offset_of_max_timestamp = rebuild.offset_of_max_timestamp
        self.is_damaged = rebuild.is_damaged
        self._max_known = self.is_dense = True

    def doubt(self) -> None:
        """The indexes mislead; a caller that can wait for new ones is told to ask again.

        A segment that is not kept by anybody, or is about to be appended to, gets them at once.
        """
        if self.on_doubt is None or self.active:
            self.rebuild_indexes()
        else:
            self.is_dense = False
            self.on_doubt(self)
            if not self.is_dense:
                raise OffsetNotAvailable(f"the indexes of {self.path} are being made anew")

    def truncate_to(self, offset: int, now_ms: int) -> tuple[int, bool]:
        """Forget the batches from the one that has ``offset`` on; on disk too when it returns.

        Return where it ends now: a batch with ``offset`` within it, or perhaps within it, goes as a
        whole; and whether it ends with a batch that is sound.
        """
        inspection = Inspection(self, unpacked_max=ACCEPTED_MAX)
        cut = inspection.begin_of(offset, *self.anchor(offset))
        if cut is not None:
            offset = min(offset, cut[1])
            self.file.truncate(cut[0])
            self.size = cut[0]
            self.stretches.cut(self.size)
            self.sound_from = min(self.sound_from, self.size)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.file.sync()
        self._bytes_since_entry = 0
        if self.size == 0:
            self.created_ms = now_ms
            self.first_timestamp = NO_TIMESTAMP
        self._read_max_timestamp(offset)
        self._check_indexes_full()
        sound_end, is_whole = self.sound_end(OFFSET_MAX)
        return max(offset, sound_end), is_whole

    def _read_max_timestamp(self, end_offset: int) -> None:
        """After a truncation to ``end_offset``, which leaves the newest batch or does not."""
        if self.offset_of_max_timestamp < end_offset:
            return
        entry = self.time_index.last_entry()
        if entry is not None and not entry_holds(self, entry):
            self.rebuild_indexes()
            return
        self.max_timestamp, self.offset_of_max_timestamp = newest(self, entry)
