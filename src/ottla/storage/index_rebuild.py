"""The indexes of one segment, made anew from its batches.

Those that are sound are told from those that are not. It takes long for a large segment: it is
prepared on the loop and may run elsewhere, and what it made is taken over on the loop: files that
are whole and synced, so that a crash leaves no part of an index that seems to be all of it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from ottla.records.batch import NO_TIMESTAMP, BatchHeader
from ottla.storage import offset_index, time_index
from ottla.storage.files import Filesystem
from ottla.storage.inspection import Inspection, SoundBatch
from ottla.storage.offset_index import POSITION_MAX
from ottla.storage.time_search import SegmentView

REBUILT_SUFFIX: Final = ".rebuilt"


class IndexRebuild:
    """See the module. The results are there when :meth:`run` has returned."""

    __slots__ = (
        "_filesystem",
        "_interval_bytes",
        "_noted",
        "is_damaged",
        "max_timestamp",
        "offset_of_max_timestamp",
        "offsets",
        "paths",
        "segment",
        "times",
        "truncations",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        segment: SegmentView,
        paths: tuple[str, str],
        *,
        interval_bytes: int,
        truncations: int,
    ) -> None:
        self._filesystem = filesystem
        self._interval_bytes = interval_bytes
        self._noted = NO_TIMESTAMP
        self.is_damaged = False
        """Whether there are batches of which the indexes cannot tell."""
        self.paths = paths
        """Of the offset and the time index, when it was prepared."""
        self.truncations = truncations
        """Of the log, when it was prepared: after one more other batches may stand there."""
        self.segment = segment
        self.offsets = bytearray()
        self.times = bytearray()
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = segment.base_offset

    def run(self) -> None:
        self._index(self._sound_batches())

    def run_aside(self) -> None:
        """The same, and write the indexes of a closed segment down beside those that mislead."""
        self.run()
        times = bytes(self.times)
        if self.max_timestamp > self._noted:
            relative = self.offset_of_max_timestamp - self.segment.base_offset
            times += time_index.ENTRY.pack(self.max_timestamp, relative)
        for path, data in zip(self.paths, (bytes(self.offsets), times), strict=True):
            self._filesystem.write(path + REBUILT_SUFFIX, data)
            file = self._filesystem.open(path + REBUILT_SUFFIX)
            try:
                file.sync()
            finally:
                file.close()

    def put_in_place(self, *paths: str) -> None:
        """Where the segment has its indexes now."""
        for path in paths:
            self._filesystem.rename(path + REBUILT_SUFFIX, path)

    def discard(self) -> None:
        for path in self.paths:
            with suppress(FileNotFoundError):
                self._filesystem.remove(path + REBUILT_SUFFIX)

    def _sound_batches(self) -> Iterator[tuple[int, BatchHeader]]:
        for found in Inspection(self.segment).walk(0, self.segment.base_offset):
            if isinstance(found, SoundBatch):
                yield found.place.position, found.header
            else:
                self.is_damaged = True

    def _index(self, batches: Iterable[tuple[int, BatchHeader]]) -> None:
        """By the rule of ``Segment``."""
        base_offset, interval_bytes = self.segment.base_offset, self._interval_bytes
        self.offsets.clear()
        self.times.clear()
        largest, offset_of_largest = NO_TIMESTAMP, base_offset
        noted, since = NO_TIMESTAMP, 0
        for position, header in batches:
            if header.max_timestamp > largest:
                largest, offset_of_largest = header.max_timestamp, header.last_offset
            if since > interval_bytes:
                relative = header.last_offset - base_offset
                if position <= POSITION_MAX:
                    self.offsets += offset_index.ENTRY.pack(relative, position)
                if largest > noted:
                    noted = largest
                    self.times += time_index.ENTRY.pack(largest, offset_of_largest - base_offset)
                since = 0
            since += header.size
        self.max_timestamp, self.offset_of_max_timestamp = largest, offset_of_largest
        self._noted = noted
