"""Where a closed segment lies, and its bytes: in a log directory, or in the remote store.

A file that was planned to be read may be gone, or another in its place, when the time has come:
retention removes segments, compaction replaces them, replicas move. Then it is :class:`SegmentGone`
and the broker is asked. A file that is open stays what it was, also when it is removed meanwhile;
it is read and never mapped, because a mapped file that a follower truncates ends the process.
"""

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from ottla.common.errors import CorruptMessage
from ottla.storage.checkpoints import (
    PARTITION_METADATA,
    CorruptCheckpoint,
    decode_partition_metadata,
)
from ottla.storage.file_records import find_offset, place_at
from ottla.storage.offset_index import ENTRY
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.transaction_index import ENTRY as TRANSACTION
from ottla.storage.transaction_index import VERSION, AbortedTransaction
from ottla.tiered.chunks import AHEAD, RemoteFile, Windows
from ottla.tiered.driver.stores import open_store
from ottla.tiered.layout import object_key
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteStore, RemoteStoreError

WINDOW: Final = 4 << 20
"""Bytes that are read and decoded at a time."""


class SegmentGone(Exception):
    """What was planned to be read is not there any more, or is something else by now."""


class SegmentBytes(Protocol):
    """The batches of one segment."""

    size: int

    def read_at(self, position: int, size: int) -> bytes: ...

    def view_at(self, position: int, size: int) -> memoryview:
        """The same, overwritten by the next call."""
        ...

    def index(self) -> bytes:
        """The offset index; empty when there is none."""
        ...

    def is_complete(self) -> bool:
        """Whether what was read is all that the log has of the segment's offsets."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """A segment in the directory of a partition."""

    directory: str
    base_offset: int
    next_offset: int
    """Where the next segment begins."""
    size: int
    identity: tuple[int, int]
    """Inode and time of the last change: compaction puts another file in its place, whose aborted
    transactions are others.
    """

    def open(self, topic_id: bytes) -> SegmentBytes:
        if local_topic_id(self.directory) != topic_id:
            raise SegmentGone(f"{self.directory} is not, or not any more, of that topic")
        return _LocalBytes(self)

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"

    def aborted(self) -> list[AbortedTransaction]:
        """Those whose markers it has."""
        return aborted_transactions(_content(self.path(TRANSACTION_INDEX_SUFFIX)))


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment in the remote store."""

    url: str
    settings: tuple[tuple[str, str], ...] = field(repr=False)
    """Of the store, secrets among them."""
    segment: RemoteLogSegment

    def open(self, topic_id: bytes) -> SegmentBytes:
        if self.segment.partition.topic_id != topic_id:
            raise SegmentGone(f"{self.segment.partition} is of another topic")
        return _RemoteBytes(self)

    @property
    def base_offset(self) -> int:
        return self.segment.start_offset

    def store(self) -> RemoteStore:
        return opened_store(self.url, self.settings, os.getpid())

    def object(self, suffix: str) -> bytes:
        """A small one, compared with the manifest; empty when there is none."""
        store = self.store()
        manifest = read_manifest(store, self.segment)
        if suffix not in manifest.objects:
            return b""
        data = store.get(object_key(self.segment, suffix))
        if not manifest.verify(suffix, data):
            raise CorruptMessage(f"{object_key(self.segment, suffix)} is damaged")
        return data

    def aborted(self) -> list[AbortedTransaction]:
        """Those whose markers it has."""
        if self.segment.transaction_index_empty:
            return []
        return aborted_transactions(self.object(TRANSACTION_INDEX_SUFFIX))


@cache
def opened_store(url: str, settings: tuple[tuple[str, str], ...], _process: int) -> RemoteStore:
    """The store of this process; a forked child gets one of its own."""
    return open_store(url, dict(settings), writable=False)


def aborted_transactions(data: bytes) -> list[AbortedTransaction]:
    """CorruptMessage when ``data`` is no transaction index."""
    if len(data) % TRANSACTION.size:
        raise CorruptMessage(f"a transaction index of {len(data)} bytes")
    entries = list(TRANSACTION.iter_unpack(data))
    if any(entry[0] != VERSION for entry in entries):
        raise CorruptMessage("a transaction index of an unknown version")
    return [AbortedTransaction(*entry[1:]) for entry in entries]


def local_topic_id(directory: str) -> bytes | None:
    """Whose a directory of a partition is; None when it does not say."""
    try:
        return decode_partition_metadata(_content(f"{directory}/{PARTITION_METADATA}"))
    except (OSError, CorruptCheckpoint):
        return None


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""


def _identity(stat: os.stat_result) -> tuple[int, tuple[int, int]]:
    return stat.st_size, (stat.st_ino, stat.st_mtime_ns)


def local_segment(directory: str, base_offset: int, next_offset: int) -> LocalSegment | None:
    """A segment as it is now; None when it is not there."""
    try:
        stat = Path(directory, file_name(base_offset, LOG_SUFFIX)).stat()
    except OSError:
        return None
    return LocalSegment(directory, base_offset, next_offset, *_identity(stat))


class _LocalBytes:
    def __init__(self, segment: LocalSegment) -> None:
        self._segment = segment
        try:
            self._file = os.open(segment.path(LOG_SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise SegmentGone(f"{segment.path(LOG_SUFFIX)}: {error.strerror}") from error
        self.size = segment.size
        self._room = bytearray()
        if _identity(os.fstat(self._file)) != (segment.size, segment.identity):
            os.close(self._file)
            raise SegmentGone(f"{segment.path(LOG_SUFFIX)} was replaced")

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._file, size, position)

    def view_at(self, position: int, size: int) -> memoryview:
        if len(self._room) < size:
            self._room = bytearray(size)
        view = memoryview(self._room)[:size]
        return view[: os.preadv(self._file, [view], position)]

    def index(self) -> bytes:
        return _content(self._segment.path(OFFSET_INDEX_SUFFIX))

    def is_complete(self) -> bool:
        """Whether it is still this file, whole, with the next segment behind it.

        A follower that had to truncate its log has no next segment any more.
        """
        segment = self._segment
        if local_segment(segment.directory, segment.base_offset, segment.next_offset) != segment:
            return False
        return Path(segment.directory, file_name(segment.next_offset, LOG_SUFFIX)).exists()

    def close(self) -> None:
        os.close(self._file)


class _RemoteBytes:
    """Everything that is read was compared with the manifest."""

    def __init__(self, place: RemoteSegment) -> None:
        self._place = place
        try:
            manifest = read_manifest(place.store(), place.segment)
        except RemoteStoreError as error:
            raise SegmentGone(str(error).partition("\n")[0]) from error
        windows = Windows(place.store(), count_max=1)
        self._file = RemoteFile(windows, manifest, ahead=AHEAD)
        self.size = self._file.size
        self.read_at = self._file.read_at
        self.view_at = self._file.view_at

    def index(self) -> bytes:
        return self._place.object(OFFSET_INDEX_SUFFIX)

    def is_complete(self) -> bool:
        """The manifest says what belongs to it, and all of that was there."""
        return True

    def close(self) -> None:
        pass


def find_position(file: SegmentBytes, base_offset: int, offset: int) -> int | None:
    """Where the first batch begins that reaches ``offset``; None when there is none.

    The index is not believed: an entry that leads to no such batch is as good as none.
    """
    position = 0
    if offset > base_offset:
        position = _indexed(file, base_offset, offset)
    found = find_offset(file, position, file.size, offset)
    return None if found is None else found.position


def _indexed(file: SegmentBytes, base_offset: int, offset: int) -> int:
    data = file.index()
    count = len(data) // ENTRY.size
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if ENTRY.unpack_from(data, middle * ENTRY.size)[0] <= offset - base_offset:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    relative, position = ENTRY.unpack_from(data, (low - 1) * ENTRY.size)
    if not 0 <= position < file.size:
        return 0
    place = place_at(file, position, file.size)
    holds = place is not None and place.last_offset == base_offset + relative
    return position if holds else 0
