"""Indexes of remote segments, kept on the local disk.

They lie in ``remote-log-index-cache`` of a log directory, under the names that Apache Kafka gives
them: ``<start offset>_<segment id>.index``, ``.timeindex``, ``.txnindex``. Each is fetched when it
is first needed, by one of those that need it; what was not used for longest goes when there is too
much of them, or when it was not used for too long.

A copy counts only after it was compared with the manifest, once in each incarnation of the broker;
what was left by the last incarnation and is damaged is fetched again. ``read`` compares it again
each time. A disk that fails is LogDirFailed; an index that is damaged in the store itself is
CorruptMessage.
"""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Final

from ottla.common.checksum import crc32c
from ottla.common.clock import Clock
from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import uuid_text
from ottla.storage import offset_index, time_index, transaction_index
from ottla.storage.directories import LogDirFailed
from ottla.storage.files import Filesystem, Mutex
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.segment import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.storage.time_index import TimeIndex
from ottla.tiered.layout import SegmentName, object_key
from ottla.tiered.manifests import Manifests
from ottla.tiered.store import RemoteStore

DIRECTORY: Final = "remote-log-index-cache"
NO_TTL: Final = -1

_ENTRY_SIZES: Final = {
    OFFSET_INDEX_SUFFIX: offset_index.ENTRY.size,
    TIME_INDEX_SUFFIX: time_index.ENTRY.size,
    TRANSACTION_INDEX_SUFFIX: transaction_index.ENTRY.size,
}
_LEFTOVERS: Final = (".tmp", ".deleted")


class _Copy:
    """An index on the disk, or about to be there."""

    __slots__ = ("crc", "mutex", "size", "used", "users")

    def __init__(self, size: int, used: float) -> None:
        self.mutex = Mutex()
        """Held while it is fetched."""
        self.size = size
        self.used = used
        self.users = 0
        self.crc: int | None = None
        """Of what it must be; None while nobody knows."""


class IndexCache:
    """See the module. Several threads may use it."""

    __slots__ = (
        "_clock",
        "_copies",
        "_filesystem",
        "_log_directory",
        "_manifests",
        "_mutex",
        "_size",
        "_store",
        "_temporary",
        "_ttl_ms",
        "path",
        "size_max",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        log_directory: str,
        store: RemoteStore,
        manifests: Manifests,
        *,
        clock: Clock,
        size_max: int,
        ttl_ms: int,
    ) -> None:
        self._filesystem = filesystem
        self._log_directory = log_directory
        self._store = store
        self._manifests = manifests
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._mutex = Mutex()
        self._copies: dict[str, _Copy] = {}
        """By name, what was used last at the end."""
        self._size = 0
        self._temporary = itertools.count()
        self.path = f"{log_directory}/{DIRECTORY}"
        self.size_max = size_max
        """May be changed while the broker runs."""

    def start(self) -> None:
        """Take over what the last incarnation has left, oldest first."""
        filesystem = self._filesystem
        with self._on_disk():
            filesystem.make_directory(self.path)
            found = []
            for name in filesystem.list_directory(self.path):
                path = f"{self.path}/{name}"
                entry_size = _ENTRY_SIZES.get(f".{name.rpartition('.')[2]}")
                size = filesystem.size(path)
                if name.endswith(_LEFTOVERS) or (entry_size and size % entry_size):
                    filesystem.remove(path)
                elif entry_size:
                    found.append((filesystem.modified_ms(path), name, size))
        now = self._clock.monotonic()
        with self._mutex:
            for _, name, size in sorted(found):
                self._copies[name] = _Copy(size, now)
                self._size += size
        self.expire()

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self._size

    # Using

    def read(self, segment: SegmentName, suffix: str) -> bytes:
        """The whole index."""
        for _ in range(2):
            with self._use(segment, suffix) as (path, copy), contextlib.suppress(FileNotFoundError):
                with self._on_disk():
                    data = self._filesystem.read(path)
                if crc32c(data) == copy.crc:
                    return data
            self.forget(segment, suffix)
        raise CorruptMessage(f"the local copy of {object_key(segment, suffix)} does not stay whole")

    def lookup(self, segment: SegmentName, offset: int) -> tuple[int, int] | None:
        """What the offset index says of ``offset``; to be compared with what is found there."""
        with self._use(segment, OFFSET_INDEX_SUFFIX) as (path, _), self._on_disk():
            if self._filesystem.exists(path):
                index = OffsetIndex(self._filesystem, path, segment.start_offset, 0)
                return index.lookup(offset)
        # Somebody has removed it, which costs one more request and not a search of the segment.
        self.forget(segment, OFFSET_INDEX_SUFFIX)
        with self._use(segment, OFFSET_INDEX_SUFFIX) as (path, _), self._on_disk():
            return OffsetIndex(self._filesystem, path, segment.start_offset, 0).lookup(offset)

    def lookup_timestamp(self, segment: SegmentName, timestamp: int) -> tuple[int, int] | None:
        """What the time index says of ``timestamp``."""
        index = TimeIndex(self._filesystem, "", segment.start_offset, 0)
        index.reset()
        index.entries.extend(self.read(segment, TIME_INDEX_SUFFIX))
        return index.lookup(timestamp)

    @contextlib.contextmanager
    def _use(self, segment: SegmentName, suffix: str) -> Iterator[tuple[str, _Copy]]:
        """A sound copy, which stays as long as it is used."""
        name = _name(segment, suffix)
        with self._held(name) as copy:
            with copy.mutex:
                if copy.crc is None:
                    self._fill(copy, segment, suffix)
            yield f"{self.path}/{name}", copy
        self.expire()

    @contextlib.contextmanager
    def _held(self, name: str) -> Iterator[_Copy]:
        now = self._clock.monotonic()
        with self._mutex:
            copy = self._copies.pop(name, None) or _Copy(0, now)
            self._copies[name] = copy
            copy.users += 1
            copy.used = now
        try:
            yield copy
        finally:
            with self._mutex:
                copy.users -= 1
                if copy.crc is None and self._copies.get(name) is copy and not copy.users:
                    self._discard(name)

    def _fill(self, copy: _Copy, segment: SegmentName, suffix: str) -> None:
        manifest = self._manifests.get(segment)
        known = manifest.objects.get(suffix)
        key = object_key(segment, suffix)
        if known is None:
            raise CorruptMessage(f"the manifest does not know {key}")
        name = _name(segment, suffix)
        with self._on_disk():
            if self._filesystem.exists(f"{self.path}/{name}"):
                data = self._filesystem.read(f"{self.path}/{name}")
                if manifest.verify(suffix, data):
                    self._counts(copy, name, data)
                    return
        data = self._store.get_range(key, 0, known.size) if known.size else b""
        if not manifest.verify(suffix, data):
            raise CorruptMessage(f"{key} is damaged")
        self._write(copy, name, data)

    def _write(self, copy: _Copy, name: str, data: bytes) -> None:
        path = f"{self.path}/{name}"
        temporary = f"{path}.{next(self._temporary)}.tmp"
        with self._on_disk():
            # Not synced: whatever a crash makes of it is compared before it is used.
            self._filesystem.write(temporary, data)
            self._filesystem.rename(temporary, path)
        self._counts(copy, name, data)

    def _counts(self, copy: _Copy, name: str, data: bytes) -> None:
        with self._mutex:
            copy.crc = crc32c(data)
            if self._copies.get(name) is copy:
                self._size += len(data) - copy.size
            copy.size = len(data)

    def replace(self, segment: SegmentName, suffix: str, data: bytes) -> None:
        """Use ``data`` from now on: made anew where what the store has is damaged."""
        name = _name(segment, suffix)
        with self._held(name) as copy, copy.mutex:
            self._write(copy, name, data)
        self.expire()

    # Removing

    def forget(self, segment: SegmentName, suffix: str) -> None:
        """Fetch it again when it is next needed."""
        name = _name(segment, suffix)
        with self._mutex:
            if name in self._copies:
                self._discard(name)

    def remove(self, segment: SegmentName) -> None:
        """The segment is gone, and so are its indexes."""
        for suffix in _ENTRY_SIZES:
            self.forget(segment, suffix)
        self._manifests.forget(segment)

    def expire(self) -> None:
        """Remove what is too much, and what was not used for too long, but nothing in use."""
        oldest = self._clock.monotonic() - self._ttl_ms / 1000
        with self._mutex:
            for name, copy in list(self._oldest_first(oldest)):
                if not copy.users:
                    self._discard(name)

    def _oldest_first(self, oldest: float) -> Iterator[tuple[str, _Copy]]:
        size = self._size
        for name, copy in self._copies.items():
            is_old = self._ttl_ms != NO_TTL and copy.used < oldest
            if not is_old and size <= self.size_max:
                return
            if not copy.users:
                size -= copy.size
            yield name, copy

    def _discard(self, name: str) -> None:
        """Within the mutex: nothing that asks for it from now on may find this file."""
        self._size -= self._copies.pop(name).size
        with self._on_disk(), contextlib.suppress(FileNotFoundError):
            self._filesystem.remove(f"{self.path}/{name}")

    @contextlib.contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise LogDirFailed(self._log_directory, error) from error


def _name(segment: SegmentName, suffix: str) -> str:
    return f"{segment.start_offset}_{uuid_text(segment.segment_id)}{suffix}"
