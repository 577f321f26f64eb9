"""The segments of a log and their files, in order of their base offsets; the last one is active.

A crash at any moment leaves a log without holes: segments go from the outer end inwards, their
batches before their indexes. What is cut off the end is cut on disk before the log goes on, or a
crash could bring it back beside what was appended in its place.

Cleaned segments take the place of those that they were made of. Their files are whole and synced
as ``.cleaned`` before this begins. Then, in this order, so that a crash at any moment leaves either
the old segments or the new one::

    .cleaned -> .swap          while any .cleaned is left, the old segments count
    old files -> .deleted      from the first .swap without .cleaned on, the new one counts
    .swap -> the final name

``recovery`` undoes or completes it. All are names in one directory, which a file system keeps in
the order in which they were changed. Readers that hold a region of an old file go on in it.

Counterparts: ``LogSegments``, and of ``LocalLog`` what changes files.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress

from ottla.common.chance import Chance
from ottla.storage.config import LogConfig
from ottla.storage.files import Filesystem
from ottla.storage.listener import LogListener
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_snapshots import ProducerSnapshots
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    SegmentLimits,
    file_name,
)


class Segments:
    """See the module. A log that is open has at least one."""

    __slots__ = (
        "_bases",
        "_chance",
        "_config",
        "_listener",
        "_segments",
        "active",
        "are_names_unsynced",
        "directory",
        "filesystem",
        "limits",
        "open_files",
        "snapshots",
        "unsynced_paths",
    )

    active: Segment

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        *,
        config: LogConfig,
        chance: Chance | None,
        open_files: OpenFiles,
        listener: LogListener,
    ) -> None:
        self._config = config
        self._chance = chance
        self._listener = listener
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.filesystem = filesystem
        self.directory = directory
        self.limits = segment_limits(config, chance)
        """Of the segments that begin from now on."""
        self.open_files = open_files
        self.snapshots = ProducerSnapshots(filesystem, directory)
        """Each segment but the first has one of the producers at its beginning."""
        self.unsynced_paths: list[str] = []
        """Small files that were written and are to be synced with the next flush."""
        self.are_names_unsynced = True
        """Whether the next flush is to sync the directory and the one that it is in."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def base_offsets(self) -> list[int]:
        return self._bases

    def size(self) -> int:
        return sum([segment.size for segment in self._segments])

    def floor(self, offset: int) -> Segment | None:
        """The last segment that does not begin above ``offset``."""
        number = bisect_right(self._bases, offset)
        return self._segments[number - 1] if number else None

    def higher(self, offset: int) -> Segment | None:
        """The first segment that begins above ``offset``."""
        number = bisect_right(self._bases, offset)
        return self._segments[number] if number < len(self._segments) else None

    def touching(self, start: int, end: int | None = None) -> list[Segment]:
        """The segments that may have offsets from ``start`` on, up to below ``end``."""
        first = max(bisect_right(self._bases, start) - 1, 0)
        last = len(self._bases) if end is None else bisect_left(self._bases, end)
        return self._segments[first:last]

    def is_closed(self, segment: Segment) -> bool:
        """Whether it is one of these and nothing is appended to it any more."""
        return self.floor(segment.base_offset) is segment and not segment.active

    # Coming and going, without a change on disk

    def new(self, base_offset: int, created_ms: int = 0) -> Segment:
        """One that is not among them yet."""
        segment = Segment(
            self.filesystem,
            self.directory,
            base_offset,
            limits=self.limits,
            open_files=self.open_files,
            created_ms=created_ms,
        )
        segment.on_doubt = self._listener.indexes_doubted
        return segment

    def add(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert number == len(self._bases) or self._bases[number] != segment.base_offset
        self._bases.insert(number, segment.base_offset)
        self._segments.insert(number, segment)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert self._segments[number] is segment
        del self._bases[number]
        del self._segments[number]
        if self._segments:
            self.active = self._segments[-1]

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on; the active segment in its size and age."""
        self._config = config
        self.limits = segment_limits(config, self._chance)
        self.active.size_max = self.limits.size_max
        self.active.age_max_ms = self.limits.age_max_ms

    # Growing

    def activate(self) -> None:
        """Open the last segment for appends, or leave it closed."""
        try:
            self.active.activate()
        except OSError:
            self.active.abandon()
            raise

    def roll(self, base_offset: int, now_ms: int, producers: ProducerState) -> Segment:
        """Close the active segment and begin another one."""
        if not self.active.active:
            self.activate()
        self.active.roll()
        producers.end_offset = base_offset
        self._take_snapshot(producers)
        return self.begin(base_offset, now_ms)

    def begin(self, base_offset: int, now_ms: int) -> Segment:
        """Make a segment behind all others and open it for appends; all of it, or nothing.

        An empty file left behind would end the log where later records go to the segment before.
        """
        self.limits = segment_limits(self._config, self._chance)
        segment = self.new(base_offset, now_ms)
        try:
            segment.create_files()
            segment.activate()
        except OSError:
            segment.abandon()
            for path in segment.paths():
                with suppress(OSError):
                    self.filesystem.remove(path)
            raise
        self.are_names_unsynced = True
        self.add(segment)
        return segment

    def _take_snapshot(self, producers: ProducerState) -> None:
        path = self.snapshots.take(producers)
        if path is not None:
            self.wrote(path)

    def wrote(self, path: str) -> None:
        """A small file is there, perhaps under a new name, and is to be synced."""
        self.unsynced_paths.append(path)
        self.are_names_unsynced = True

    # Giving up

    def truncate_to(self, offset: int, now_ms: int) -> tuple[int, bool]:
        """Cut off what stands at ``offset`` and behind it, on disk too.

        Where the log ends now, and whether that end is whole. It is at ``offset`` or, if that was
        within a batch, before this batch. With a gap behind it a recovery would find that records
        have been lost, and drop those that came later.
        """
        later = [segment for segment in self._segments if segment.base_offset > offset]
        if later:
            self.delete(later[::-1])
            self.sync_names()
        if not self.active.active:
            self.active.activate()
        return self.active.truncate_to(offset, now_ms)

    def delete_all(self) -> None:
        """Another segment must begin at once."""
        self.delete(self._segments[::-1])

    def delete(self, segments: list[Segment]) -> None:
        """Rename the files of ``segments``, in that order, and have them removed later."""
        deleted = []
        for segment in segments:
            deleted += self._set_aside(segment)
            snapshot = self.snapshots.mark_deleted(segment.base_offset)
            if snapshot is not None:
                deleted.append(snapshot)
        self.are_names_unsynced = True
        if deleted:
            self._listener.files_deleted(deleted)

    def _set_aside(self, segment: Segment) -> list[str]:
        """Rename its files; their new names."""
        self.remove(segment)
        segment.abandon()
        renamed = []
        for path in segment.paths():
            if self.filesystem.exists(path):
                self.filesystem.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def replace(self, old: list[Segment]) -> Segment:
        """Let the ``.cleaned`` files of the first of ``old`` stand for all of them."""
        base_offset = old[0].base_offset
        target = f"{self.directory}/{file_name(base_offset, '')}"
        suffixes = self._cleaned_suffixes(target)
        rename = self.filesystem.rename
        for suffix in suffixes:
            rename(target + suffix + CLEANED_SUFFIX, target + suffix + SWAP_SUFFIX)
        deleted = []
        for segment in old:
            assert segment is not self.active
            deleted += self._set_aside(segment)
            if segment is not old[0]:  # whose snapshot is the new one's
                snapshot = self.snapshots.mark_deleted(segment.base_offset)
                if snapshot is not None:
                    deleted.append(snapshot)
        for suffix in suffixes:
            rename(target + suffix + SWAP_SUFFIX, target + suffix)
        new = self.new(base_offset)
        new.found_on_disk()
        new.sound_from = 0  # the cleaner has looked at every batch
        self.add(new)
        self.are_names_unsynced = True
        self._listener.files_deleted(deleted)
        return new

    def _cleaned_suffixes(self, target: str) -> list[str]:
        """Of the files that the cleaner has made; an index of no transactions is removed."""
        filesystem = self.filesystem
        suffixes = [
            suffix for suffix in SUFFIXES if filesystem.exists(target + suffix + CLEANED_SUFFIX)
        ]
        assert suffixes[0] == LOG_SUFFIX
        if TRANSACTION_INDEX_SUFFIX in suffixes:
            path = target + TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX
            if filesystem.size(path) == 0:
                filesystem.remove(path)
                suffixes.remove(TRANSACTION_INDEX_SUFFIX)
        return suffixes

    # The directory

    def sync_names(self) -> None:
        """Have the names in the directory on disk when this returns."""
        self.filesystem.sync_directory(self.directory)

    def move_to(self, directory: str) -> None:
        """Rename the directory."""
        self.filesystem.rename(self.directory, directory)
        self.unsynced_paths = [
            path.replace(self.directory, directory, 1) for path in self.unsynced_paths
        ]
        self.directory = self.snapshots.directory = directory
        for segment in self._segments:
            segment.move_to(directory)
        self.are_names_unsynced = True

    def write_out(self, producers: ProducerState) -> None:
        """Write what is only in memory, as files of a closed log."""
        active = self.active
        if active.active:
            active.roll()
            self.unsynced_paths += active.index_paths()
            self._take_snapshot(producers)

    def abandon(self) -> None:
        """Let go of all files without writing."""
        for segment in self._segments:
            segment.abandon()


def segment_limits(config: LogConfig, chance: Chance | None) -> SegmentLimits:
    """The limits of the next segment; its age less a jitter, so that not all roll at once."""
    age_max_ms = config.segment_ms
    if "compact" in config.cleanup_policy:
        # What is never rolled is never compacted.
        age_max_ms = min(age_max_ms, config.max_compaction_lag_ms)
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    jitter_ms = chance.below(jitter_max) if chance is not None and jitter_max > 0 else 0
    return SegmentLimits(
        config.segment_bytes,
        age_max_ms - jitter_ms,
        config.segment_index_bytes,
        config.index_interval_bytes,
    )
