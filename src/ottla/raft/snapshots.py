"""The snapshot files of the metadata log, beside its segments.

``<end offset>-<epoch>.checkpoint`` stands for everything below the end offset. It is written under
another name, synced and renamed, so that a file with that name is whole; it is never changed, and
read-only. Formatting writes the first, of offset 0 and epoch 0, which holds only the voters.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.metadata.snapshot import SnapshotContent, read_container, read_header_timestamp
from ottla.records.validation import check_batches
from ottla.storage.files import Filesystem

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEFTOVER: Final = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|deleted)")
_READ_ONLY: Final = 0o400
_HEAD_BYTES: Final = 64 * 1024
"""The first batch, with header and voters, lies within these."""


class SnapshotId(NamedTuple):
    end_offset: int
    """The first offset that is not contained."""
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)


class Snapshot(NamedTuple):
    """What retention looks at."""

    id: SnapshotId
    size: int
    last_contained_timestamp_ms: int


class SnapshotStore:
    """The snapshots of one metadata log, oldest first."""

    __slots__ = ("_described", "_directory", "_downloading", "_filesystem", "_listed", "_state")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._described: dict[SnapshotId, Snapshot] = {}
        """Those that were looked into; they never change."""
        self._state = object()
        """Another one after each change, which may be made in the background."""
        self._listed: tuple[object, list[SnapshotId]] | None = None
        """What the directory had, and in which state: each fetch of a replica asks for it."""
        self._downloading: SnapshotId | None = None
        """Of which there is a part."""

    def ids(self) -> list[SnapshotId]:
        state, listed = self._state, self._listed
        if listed is None or listed[0] is not state:
            listed = self._listed = (state, self._list())
        return list(listed[1])

    def _list(self) -> list[SnapshotId]:
        found = []
        for name in self._filesystem.list_directory(self._directory):
            match = _NAME.fullmatch(name)
            if match is not None:
                found.append(SnapshotId(int(match[1]), int(match[2])))
        return sorted(found)

    def latest(self) -> SnapshotId | None:
        ids = self.ids()
        return ids[-1] if ids else None

    def remove_leftovers(self) -> None:
        """Remove what a crash left unfinished."""
        for name in self._filesystem.list_directory(self._directory):
            if _LEFTOVER.fullmatch(name):
                self._filesystem.remove(self._path(name))

    def read(self, snapshot_id: SnapshotId) -> SnapshotContent:
        return read_container(self._filesystem.read(self._path(snapshot_id.file_name)))

    def described(self) -> list[Snapshot]:
        ids = self.ids()
        self._described = {each: self._described.get(each) or self._describe(each) for each in ids}
        return list(self._described.values())

    def _describe(self, snapshot_id: SnapshotId) -> Snapshot:
        path = self._path(snapshot_id.file_name)
        file = self._filesystem.open(path)
        try:
            head = file.read_at(0, _HEAD_BYTES)
        finally:
            file.close()
        timestamp_ms = read_header_timestamp(head)
        return Snapshot(snapshot_id, self._filesystem.size(path), timestamp_ms)

    def write(self, snapshot_id: SnapshotId, batches: Iterable[bytes | bytearray]) -> None:
        """Write a whole snapshot; may run in the background."""
        path = self._path(snapshot_id.file_name)
        part = f"{path}.part"
        try:
            self._write(part, batches)
            self._rename(part, path)
        except Exception:
            with suppress(OSError):
                self._filesystem.remove(part)
            raise

    def _write(self, part: str, batches: Iterable[bytes | bytearray]) -> None:
        file = self._filesystem.open(part, create=True)
        try:
            file.truncate(0)
            position = 0
            for batch in batches:
                file.write_at(position, batch)
                position += len(batch)
            file.sync()
        finally:
            file.close()
        self._filesystem.set_mode(part, _READ_ONLY)

    def _rename(self, part: str, path: str) -> None:
        try:
            self._filesystem.rename(part, path)
        finally:
            self._state = object()
        self._filesystem.sync_directory(self._directory)

    # Downloads: a snapshot that comes in parts, under a name that no finished one has.

    def write_chunk(self, snapshot_id: SnapshotId, position: int, data: bytes) -> None:
        """Write what follows ``position``; at 0 the download begins anew."""
        self.keep_download(snapshot_id)
        self._downloading = snapshot_id
        file = self._filesystem.open(self._download(snapshot_id), create=True)
        try:
            file.truncate(position)
            file.write_at(position, data)
        finally:
            file.close()

    def check_download(self, snapshot_id: SnapshotId) -> SnapshotContent:
        """Sync a download and read it; CorruptMessage when it is no snapshot. May take long."""
        path = self._download(snapshot_id)
        file = self._filesystem.open(path)
        try:
            file.sync()
        finally:
            file.close()
        data = self._filesystem.read(path)
        checked = check_batches(memoryview(data), 0, len(data))
        if checked.end != len(data):
            raise CorruptMessage("a snapshot ends within a batch")
        return read_container(data)

    def install_download(self, snapshot_id: SnapshotId) -> None:
        """Make a checked download the newest snapshot; those before it go."""
        path = self._path(snapshot_id.file_name)
        self._downloading = None
        self._filesystem.set_mode(self._download(snapshot_id), _READ_ONLY)
        self._rename(self._download(snapshot_id), path)

    def keep_download(self, wanted: SnapshotId | None) -> None:
        """Remove what has come of a download, unless it is the one that is wanted."""
        if self._downloading not in (None, wanted):
            path = self._download(self._downloading)
            self._downloading = None
            if self._filesystem.exists(path):
                self._filesystem.remove(path)

    def _download(self, snapshot_id: SnapshotId) -> str:
        return self._path(snapshot_id.file_name.replace(".", "-download.") + ".part")

    # Uploads

    def size(self, snapshot_id: SnapshotId) -> int:
        return self._filesystem.size(self._path(snapshot_id.file_name))

    def read_chunk(self, snapshot_id: SnapshotId, position: int, size: int) -> bytes:
        file = self._filesystem.open(self._path(snapshot_id.file_name))
        try:
            return file.read_at(position, size)
        finally:
            file.close()

    def remove_before(self, start_offset: int) -> None:
        """Those that end before the log begins: with what follows in it they are of no use."""
        for snapshot_id in self.ids():
            if snapshot_id.end_offset < start_offset:
                self.remove(snapshot_id)

    def remove(self, snapshot_id: SnapshotId) -> None:
        try:
            self._filesystem.remove(self._path(snapshot_id.file_name))
        finally:
            self._state = object()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class SnapshotRetention(NamedTuple):
    bytes_max: int
    """Log and snapshots together; below 0 for no bound."""
    age_max_ms: int


def snapshots_to_remove(
    snapshots: list[Snapshot],
    *,
    log_bytes: int,
    now_ms: int,
    retention: SnapshotRetention,
) -> list[SnapshotId]:
    """Which of ``snapshots``, oldest first, are to go.

    The newest stays in any case: the log before it may be gone.
    """
    removed = []
    total = log_bytes + sum(snapshot.size for snapshot in snapshots)
    for snapshot in snapshots[:-1]:
        too_many = 0 <= retention.bytes_max < total
        age_ms = now_ms - snapshot.last_contained_timestamp_ms
        if not too_many and not 0 <= retention.age_max_ms < age_ms:
            break
        removed.append(snapshot.id)
        total -= snapshot.size
    return removed


class SnapshotSchedule:
    """When the next snapshot is due: after so many bytes, or so much time with anything new."""

    __slots__ = ("_bytes", "_bytes_max", "_interval", "_since")

    def __init__(self, bytes_max: int, interval_ms: int, now: float) -> None:
        self._bytes_max = bytes_max
        self._interval = interval_ms / 1000
        self._bytes = 0
        self._since = now

    def appended(self, size: int) -> None:
        self._bytes += size

    def is_due(self, now: float) -> bool:
        if self._bytes >= self._bytes_max:
            return True
        return self._bytes > 0 and 0 < self._interval <= now - self._since

    def taken(self, now: float) -> None:
        self._bytes = 0
        self._since = now
