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
    """See the module. Several threads may use it."""

    __slots__ = ("_count_max", "_kept", "_mutex", "_store")

    def __init__(self, store: RemoteStore, *, count_max: int = COUNT_MAX) -> None:
        self._store = store
        self._count_max = count_max
        self._kept: dict[tuple[bytes, int], bytes] = {}
        """By segment and number, what was used last at the end."""
        self._mutex = Mutex()

    def read(self, manifest: Manifest, start: int, end: int, *, ahead: int = 0) -> bytes:
        """The batches' bytes from ``start`` to ``end``, which must not be beyond the object's.

        CorruptMessage when they are not what was once put there.
        """
        if start >= end:
            return b""
        size = manifest.chunk_size
        first, last = start // size, (end - 1) // size
        found = self._take(manifest, first, last)
        missing = [number for number in range(first, last + 1) if number not in found]
        if missing:
            count = len(manifest.objects[LOG_SUFFIX].crc32c)
            self._fetch(manifest, found, missing[0], min(max(missing[-1] + 1 + ahead, 0), count))
        self._keep(manifest.segment, {n: chunk for n, chunk in found.items() if n >= last})
        parts = [memoryview(found[number]) for number in range(first, last + 1)]
        parts[-1] = parts[-1][: end - last * size]
        parts[0] = parts[0][start - first * size :]
        return b"".join(parts)

    def _take(self, manifest: Manifest, first: int, last: int) -> dict[int, bytes]:
        """What is kept of these chunks. All but the last are used up by it."""
        segment_id = manifest.segment.segment_id
        found: dict[int, bytes] = {}
        with self._mutex:
            for number in range(first, last + 1):
                chunk = self._kept.pop((segment_id, number), None)
                if chunk is not None:
                    found[number] = chunk
        return found

    def _keep(self, segment: SegmentName, chunks: dict[int, bytes]) -> None:
        with self._mutex:
            for number, chunk in chunks.items():
                self._kept[segment.segment_id, number] = chunk
            while len(self._kept) > self._count_max:
                del self._kept[next(iter(self._kept))]

    def _fetch(self, manifest: Manifest, into: dict[int, bytes], first: int, end: int) -> None:
        """The chunks from ``first`` to before ``end``, by one request."""
        size = manifest.chunk_size
        whole = manifest.objects[LOG_SUFFIX].size
        start, stop = first * size, min(end * size, whole)
        key = object_key(manifest.segment, LOG_SUFFIX)
        data = memoryview(self._store.get_range(key, start, stop - start))
        for number in range(first, end):
            chunk = data[number * size - start : (number + 1) * size - start]
            if not manifest.verify_chunk(LOG_SUFFIX, number, chunk):
                raise CorruptMessage(f"{key} is damaged at position {number * size} or behind")
            into[number] = bytes(chunk)

    def forget(self, segment: SegmentName) -> None:
        with self._mutex:
            for key in [key for key in self._kept if key[0] == segment.segment_id]:
                del self._kept[key]


class RemoteFile:
    """The batches of a remote segment as a file that is read at given positions."""

    __slots__ = ("_ahead", "_chunks", "_manifest", "size")

    def __init__(self, chunks: Chunks, manifest: Manifest, *, ahead: int = 0) -> None:
        self._chunks = chunks
        self._manifest = manifest
        self._ahead = ahead
        self.size = manifest.objects[LOG_SUFFIX].size

    def read_at(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        return self._chunks.read(self._manifest, position, end, ahead=self._ahead)
