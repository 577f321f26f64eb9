"""The snapshot files of the metadata log, beside its segments.

``<end offset>-<epoch>.checkpoint`` stands for everything below the end offset. It is written under
another name, synced and renamed, so that a file with that name is whole; it is never changed, and
read-only. Formatting writes the first, of offset 0 and epoch 0, which holds only the voters.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.metadata.snapshot import SnapshotContent, read_container
from ottla.storage.files import Filesystem

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEFTOVER: Final = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|deleted)")
_READ_ONLY: Final = 0o400


class SnapshotId(NamedTuple):
    end_offset: int
    """The first offset that is not contained."""
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)


class SnapshotStore:
    """The snapshots of one metadata log, oldest first."""

    __slots__ = ("_directory", "_filesystem")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
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

    def size(self, snapshot_id: SnapshotId) -> int:
        return self._filesystem.size(self._path(snapshot_id.file_name))

    def write(self, snapshot_id: SnapshotId, batches: Iterable[bytes | bytearray]) -> None:
        """Write a whole snapshot; may run in the background."""
        path = self._path(snapshot_id.file_name)
        part = f"{path}.part"
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
        self._filesystem.rename(part, path)
        self._filesystem.sync_directory(self._directory)

    def remove(self, snapshot_id: SnapshotId) -> None:
        self._filesystem.remove(self._path(snapshot_id.file_name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class SnapshotRetention(NamedTuple):
    bytes_max: int
    """Log and snapshots together; below 0 for no bound."""
    age_max_ms: int


def snapshots_to_remove(
    snapshots: list[tuple[SnapshotId, int, int]],
    *,
    log_bytes: int,
    now_ms: int,
    retention: SnapshotRetention,
) -> list[SnapshotId]:
    """Which of ``snapshots`` (id, size, last contained timestamp), oldest first, are to go.

    The newest stays in any case: the log before it may be gone.
    """
    removed = []
    total = log_bytes + sum(size for _, size, _ in snapshots)
    for snapshot_id, size, timestamp_ms in snapshots[:-1]:
        too_many = 0 <= retention.bytes_max < total
        too_old = 0 <= retention.age_max_ms < now_ms - timestamp_ms
        if not too_many and not too_old:
            break
        removed.append(snapshot_id)
        total -= size
    return removed
