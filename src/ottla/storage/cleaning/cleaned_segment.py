"""A segment that a cleaning writes: ``.cleaned`` files, which replace others once they are whole.

They were made before, empty, by the side that ordered the cleaning: a worker that goes on after its
log was deleted finds no name of them, and never makes one in the directory of another log.
"""

from ottla.storage.files import Data, Filesystem
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    INDEX_INTERVAL_MAX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.transaction_index import ENTRY, VERSION, AbortedTransaction


def cleaned_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{file_name(base_offset, suffix)}{CLEANED_SUFFIX}"


def create_cleaned_files(
    filesystem: Filesystem, directory: str, base_offset: int, *, transactions: bool
) -> None:
    """Make them, empty; one for transactions only where there may be some."""
    for suffix in SUFFIXES:
        if suffix != TRANSACTION_INDEX_SUFFIX or transactions:
            path = cleaned_path(directory, base_offset, suffix)
            if filesystem.exists(path):
                filesystem.remove(path)
            filesystem.open(path, create=True).close()


def remove_cleaned_files(filesystem: Filesystem, directory: str, base_offset: int) -> None:
    for suffix in SUFFIXES:
        path = cleaned_path(directory, base_offset, suffix)
        if filesystem.exists(path):
            filesystem.remove(path)


class CleanedSegment:
    """Appends to the ``.cleaned`` files of one segment."""

    __slots__ = (
        "_bytes_since_entry",
        "_directory",
        "_file",
        "_filesystem",
        "_index_interval_bytes",
        "_max_offset",
        "_max_timestamp",
        "_offset_index",
        "_time_index",
        "base_offset",
        "size",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        index_size_max: int,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._file = filesystem.open(cleaned_path(directory, base_offset, LOG_SUFFIX))
        self._index_interval_bytes = min(index_interval_bytes, INDEX_INTERVAL_MAX)
        self._bytes_since_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_offset = base_offset
        self._offset_index = OffsetIndex(filesystem, "", base_offset, index_size_max)
        self._time_index = TimeIndex(filesystem, "", base_offset, index_size_max)
        self._offset_index.reset()
        self._time_index.reset()
        self.base_offset = base_offset
        self.size = 0

    def append(self, data: Data, batches: list[tuple[int, int, int]]) -> None:
        """Write batches; of each its size, last offset and largest timestamp."""
        self._file.write_at(self.size, data)
        for size, last_offset, max_timestamp in batches:
            if max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_offset = max_timestamp, last_offset
            if self._bytes_since_entry > self._index_interval_bytes:
                self._offset_index.append(last_offset, self.size)
                self._time_index.maybe_append(self._max_timestamp, self._max_offset)
                self._bytes_since_entry = 0
            self._bytes_since_entry += size
            self.size += size

    def finish(self, transactions: list[AbortedTransaction], modified_ms: int) -> None:
        """Write the indexes and have all of it on disk, dated as what it replaces."""
        self._time_index.maybe_append(self._max_timestamp, self._max_offset)
        self._file.sync()
        self._file.close()
        self._write(OFFSET_INDEX_SUFFIX, bytes(self._offset_index.entries))
        self._write(TIME_INDEX_SUFFIX, bytes(self._time_index.entries))
        if transactions:
            data = b"".join(ENTRY.pack(VERSION, *entry) for entry in transactions)
            self._write(TRANSACTION_INDEX_SUFFIX, data)
        path = cleaned_path(self._directory, self.base_offset, LOG_SUFFIX)
        self._filesystem.set_modified_ms(path, modified_ms)

    def _write(self, suffix: str, data: bytes) -> None:
        file = self._filesystem.open(cleaned_path(self._directory, self.base_offset, suffix))
        try:
            file.write_at(0, data)
            file.sync()
        finally:
            file.close()

    def abandon(self) -> None:
        self._file.close()
