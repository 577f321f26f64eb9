"""The batches of remote segments, read in chunks that have a checksum each.

What one request has brought is a window: some chunks in a row. A window that was not used up is
kept, so that a reader that goes on in small steps costs one request per window and not one per
step; one that is known to go on gets some chunks ahead. Everything that leaves here has been
compared with the manifest, and is copied as little as can be.
"""

from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.storage.files import Mutex
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.layout import SegmentName, object_key
from ottla.tiered.manifest import Manifest
from ottla.tiered.store import RemoteStore

WINDOWS_MAX: Final = 16
"""Kept for all readers together; with chunks of 1 MiB they are 64 MiB."""
AHEAD: Final = 3
"""Chunks that are fetched for a reader that goes on, beside those that it asks for."""


class Window(NamedTuple):
    """Bytes of a segment from ``start`` on, where a chunk begins."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Windows:
    """Where readers leave what they will need next. Several threads may use it."""

    __slots__ = ("_count_max", "_kept", "_mutex", "store")

    def __init__(self, store: RemoteStore, *, count_max: int = WINDOWS_MAX) -> None:
        self.store = store
        self._count_max = count_max
        self._kept: dict[tuple[bytes, int], Window] = {}
        """By segment and start, what was left last at the end."""
        self._mutex = Mutex()

    def find(self, segment: SegmentName, position: int) -> Window | None:
        """The one that has the byte at ``position``."""
        segment_id = segment.segment_id
        with self._mutex:
            for key, window in self._kept.items():
                if key[0] == segment_id and window.start <= position < window.end:
                    return window
        return None

    def leave(self, segment: SegmentName, window: Window) -> None:
        with self._mutex:
            self._kept.pop((segment.segment_id, window.start), None)
            self._kept[segment.segment_id, window.start] = window
            while len(self._kept) > self._count_max:
                del self._kept[next(iter(self._kept))]

    def drop(self, segment: SegmentName, window: Window) -> None:
        """It is used up."""
        with self._mutex:
            self._kept.pop((segment.segment_id, window.start), None)

    def forget(self, segment: SegmentName) -> None:
        with self._mutex:
            for key in [key for key in self._kept if key[0] == segment.segment_id]:
                del self._kept[key]


class RemoteFile:
    """The batches of a remote segment as a file, for one read of it from front to back."""

    __slots__ = ("_ahead", "_held", "_manifest", "_windows", "size")

    def __init__(self, windows: Windows, manifest: Manifest, *, ahead: int = 0) -> None:
        self._windows = windows
        self._manifest = manifest
        self._ahead = ahead
        self._held: list[Window] = []
        """In order; no two of them overlap."""
        self.size = manifest.objects[LOG_SUFFIX].size

    def read_at(self, position: int, size: int) -> bytes:
        """CorruptMessage when it is not what was once put there."""
        return bytes(self.view_at(position, size))

    def view_at(self, position: int, size: int) -> memoryview:
        """The same without a copy, if one window has it all."""
        end = min(position + size, self.size)
        parts: list[memoryview] = []
        while position < end:
            window = self._window(position, end)
            part = memoryview(window.data)[position - window.start : end - window.start]
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _window(self, position: int, end: int) -> Window:
        """The window that has ``position``; if it must be fetched, it reaches to ``end``."""
        for held in self._held:
            if held.start <= position < held.end:
                return held
        window = self._windows.find(self._manifest.segment, position)
        if window is None:
            window = self._fetch(position, end)
        # A read goes from front to back, but may look again at what stood before.
        self._held = [*self._held[-1:], window]
        return window

    def _fetch(self, position: int, end: int) -> Window:
        """The chunks that have these bytes, and some ahead, by one request."""
        manifest = self._manifest
        size = manifest.chunk_size
        first, last = position // size, -(-end // size) + self._ahead
        start, stop = first * size, min(last * size, self.size)
        key = object_key(manifest.segment, LOG_SUFFIX)
        data = self._windows.store.get_range(key, start, stop - start)
        view = memoryview(data)
        for number, at in enumerate(range(0, stop - start, size), first):
            if not manifest.verify_chunk(LOG_SUFFIX, number, view[at : at + size]):
                raise CorruptMessage(f"{key} is damaged at position {start + at} or behind")
        return Window(start, data)

    def leave_at(self, position: int) -> None:
        """A reader that goes on at ``position`` finds what is here already."""
        segment = self._manifest.segment
        window_max = (1 + AHEAD) * self._manifest.chunk_size
        for window in self._held:
            if window.end <= position:
                self._windows.drop(segment, window)
            elif len(window.data) <= window_max:
                self._windows.leave(segment, window)
            else:
                # What a large read has brought is not kept for the last few bytes of it.
                start = max(window.start, position - position % self._manifest.chunk_size)
                self._windows.leave(segment, Window(start, window.data[start - window.start :]))
