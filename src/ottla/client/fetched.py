"""What a fetch brought of one partition, unpacked batch by batch as it is asked for.

A fetch begins with the batch that holds the wanted offset and may end with a part of one. With
read_committed the broker names the aborted transactions in what it sends; their records, and all
control records, are left out here.
"""

from collections import deque
from collections.abc import Iterable

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    BatchHeader,
    batches,
    read_header,
)
from ottla.records.control import ControlType, read_control_type
from ottla.records.record import Record, iterate


class FetchedRecords:
    """``position`` is the offset from which to fetch on once all of this is taken."""

    __slots__ = ("_aborted", "_batches", "_check_crc", "_data", "_limit", "_upcoming", "position")

    def __init__(
        self,
        data: bytes,
        position: int,
        *,
        aborted: Iterable[tuple[int, int]] = (),
        check_crc: bool = True,
        decompressed_max: int,
    ) -> None:
        """``aborted`` are the producer id and the first offset of each aborted transaction."""
        self.position = position
        self._data = data
        self._batches = batches(data)
        self._check_crc = check_crc
        self._limit = decompressed_max
        self._upcoming = deque(sorted(aborted, key=lambda one: one[1]))
        self._aborted: set[int] = set()

    def next_records(self) -> list[Record] | None:
        """The records of the next batch that has any for us; None when there is no further one."""
        for pos, _ in self._batches:
            header = read_header(self._data, pos)
            next_offset = header.last_offset + 1
            records = self._records(header, pos) if next_offset > self.position else []
            wanted = [record for record in records if record.offset >= self.position]
            self.position = max(self.position, next_offset)
            if wanted:
                return wanted
        return None

    def _records(self, header: BatchHeader, pos: int) -> list[Record]:
        # Before the marker: a fetch may begin with the one that ends such a transaction.
        while self._upcoming and self._upcoming[0][1] <= header.last_offset:
            self._aborted.add(self._upcoming.popleft()[0])
        if header.is_control:
            records = iterate(self._data, pos, limit=self._limit, check_crc=self._check_crc)
            if records and read_control_type(records[0].key) is ControlType.ABORT:
                self._aborted.discard(header.producer_id)
            return []
        if header.is_transactional and header.producer_id in self._aborted:
            return []
        return iterate(self._data, pos, limit=self._limit, check_crc=self._check_crc)


def check_whole_batch(data: bytes, what: str) -> None:
    """A fetch that brought bytes but not one whole batch can never go on."""
    if not data:
        return
    if len(data) > MAGIC_POSITION:
        length = int.from_bytes(data[LENGTH_POSITION:LOG_OVERHEAD], "big", signed=True)
        if length + LOG_OVERHEAD <= len(data):
            return
    raise CorruptMessage(f"{what}: the broker sent {len(data)} bytes without a whole batch")
