"""The batches of remote segments, read in chunks that have a checksum each.

What was read and not used up is kept, so that a reader who goes on in small steps costs one request
per chunk and not one per step; one who is known to go on gets some chunks ahead. Everything that
leaves here has been compared with the manifest.
"""

from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.storage.files import Mutex
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.layout import SegmentName, object_key
from ottla.tiered.manifest import Manifest
from ottla.tiered.store import RemoteStore

COUNT_MAX: Final = 64
"""Chunks that are kept for all readers together."""
AHEAD: Final = 3
"""Chunks that are fetched for a reader who goes on, beside those that he asks for."""


class Chunks:
    """Where readers leave what they will need next. Several threads may use it."""

    __slots__ = ("_count_max", "_kept", "_mutex", "store")

    def __init__(self, store: RemoteStore, *, count_max: int = COUNT_MAX) -> None:
        self.store = store
        self._count_max = count_max
        self._kept: dict[tuple[bytes, int], bytes] = {}
        """By segment and number, what was left last at the end."""
        self._mutex = Mutex()

    def find(self, segment: SegmentName, numbers: range) -> dict[int, bytes]:
        """Those of the chunks that are here."""
        with self._mutex:
            kept = ((number, self._kept.get((segment.segment_id, number))) for number in numbers)
            return {number: chunk for number, chunk in kept if chunk is not None}

    def leave(self, segment: SegmentName, chunks: dict[int, bytes], used_up: range) -> None:
        """Keep ``chunks``, and no longer those that were used up."""
        with self._mutex:
            for number in used_up:
                self._kept.pop((segment.segment_id, number), None)
            for number, chunk in chunks.items():
                self._kept.pop((segment.segment_id, number), None)
                self._kept[segment.segment_id, number] = chunk
            while len(self._kept) > self._count_max:
                del self._kept[next(iter(self._kept))]

    def forget(self, segment: SegmentName) -> None:
        with self._mutex:
            for key in [key for key in self._kept if key[0] == segment.segment_id]:
                del self._kept[key]


class RemoteFile:
    """The batches of a remote segment as a file, for one read of it from front to back."""

    __slots__ = ("_ahead", "_chunks", "_first", "_held", "_manifest", "size")

    def __init__(self, chunks: Chunks, manifest: Manifest, *, ahead: int = 0) -> None:
        self._chunks = chunks
        self._manifest = manifest
        self._ahead = ahead
        self._held: dict[int, bytes] = {}
        self._first = len(manifest.objects[LOG_SUFFIX].crc32c)
        self.size = manifest.objects[LOG_SUFFIX].size

    def read_at(self, position: int, size: int) -> bytes:
        """CorruptMessage when it is not what was once put there."""
        end = min(position + size, self.size)
        if position >= end:
            return b""
        chunk_size = self._manifest.chunk_size
        first, last = position // chunk_size, (end - 1) // chunk_size
        self._hold(first, last)
        held = self._held
        parts = [memoryview(held[number]) for number in range(first, last + 1)]
        parts[-1] = parts[-1][: end - last * chunk_size]
        parts[0] = parts[0][position - first * chunk_size :]
        return b"".join(parts)

    def _hold(self, first: int, last: int) -> None:
        """Get chunks; those behind which the reader has passed are let go."""
        held, numbers = self._held, range(first, last + 1)
        self._first = min(self._first, first)
        for number in [number for number in held if number < first - 1]:
            del held[number]
        if not all(number in held for number in numbers):
            held.update(self._chunks.find(self._manifest.segment, numbers))
            missing = [number for number in numbers if number not in held]
            if missing:
                self._fetch(missing[0], missing[-1] + 1 + self._ahead)

    def _fetch(self, first: int, end: int) -> None:
        """The chunks from ``first`` to before ``end``, by one request."""
        manifest = self._manifest
        size = manifest.chunk_size
        end = min(end, len(manifest.objects[LOG_SUFFIX].crc32c))
        start, stop = first * size, min(end * size, self.size)
        key = object_key(manifest.segment, LOG_SUFFIX)
        data = memoryview(self._chunks.store.get_range(key, start, stop - start))
        for number in range(first, end):
            chunk = data[number * size - start : (number + 1) * size - start]
            if not manifest.verify_chunk(LOG_SUFFIX, number, chunk):
                raise CorruptMessage(f"{key} is damaged at position {number * size} or behind")
            self._held[number] = bytes(chunk)

    def leave_at(self, position: int) -> None:
        """Whoever goes on at ``position`` finds what is here already."""
        number = position // self._manifest.chunk_size
        going = {each: chunk for each, chunk in self._held.items() if each >= number}
        self._chunks.leave(self._manifest.segment, going, range(self._first, number))
