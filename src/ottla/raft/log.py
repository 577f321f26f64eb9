"""What the quorum needs of a log, and the metadata log as that.

The metadata log is a log like any other on disk. The leader writes batches whose offsets and epoch
it has already set. Syncing is split in two: ``prepare_sync`` takes, on the loop, what there is to
sync, and returns the work, which may run in the background while more is appended.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ottla.metadata.records import MetadataRecord, decode_record
from ottla.records.batch import BatchHeader, batches, read_header
from ottla.records.record import Record, iterate

READ_BYTES: Final = 4 * 1024 * 1024


class LogBatch:
    """One batch of the metadata log."""

    __slots__ = ("data", "header")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header: BatchHeader = read_header(data)

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset

    @property
    def epoch(self) -> int:
        return self.header.partition_leader_epoch

    @property
    def timestamp_ms(self) -> int:
        return self.header.max_timestamp

    @property
    def is_control(self) -> bool:
        return self.header.is_control

    def records(self) -> list[Record]:
        return iterate(self.data)

    def metadata_records(self) -> list[MetadataRecord]:
        assert not self.is_control
        return [decode_record(record.value or b"") for record in iterate(self.data)]


class RaftLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; 0 when there is none."""
        ...

    @property
    def size(self) -> int:
        """Bytes on disk."""
        ...

    def append(self, batch: bytearray) -> None:
        """Write a batch that begins at ``end_offset``."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, the first of which contains ``offset``; at least one when there is any."""
        ...

    def prepare_sync(self) -> Callable[[], int]:
        """The work that syncs all that is written now; it returns the offset that it syncs to."""
        ...

    def truncate_to(self, offset: int) -> None: ...

    def restart_at(self, offset: int, epoch: int) -> None:
        """Forget everything and go on at ``offset``, where a snapshot of ``epoch`` ends."""
        ...

    def delete_before(self, offset: int) -> None:
        """What lies before ``offset`` is no longer needed."""
        ...

    def close(self) -> None: ...


def read_batches(log: RaftLog, start: int, end: int) -> Iterator[LogBatch]:
    """The batches from offset ``start`` on that begin before ``end``."""
    while start < end:
        data = log.read(start, READ_BYTES)
        if not data:
            return
        for position, size in batches(data):
            batch = LogBatch(data[position : position + size])
            if batch.base_offset >= end:
                return
            if batch.last_offset >= start:
                yield batch
                start = batch.last_offset + 1
