"""``<offset>.snapshot``: the producers of a log as they were before that offset.

    int16 version 1, uint32 CRC-32C of what follows, int32 count, then 46 bytes for each producer:
    int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta,
    int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction or -1

Taken when a segment is rolled, so that a segment can be recovered from its beginning, and when the
log is closed. A damaged one is removed and the one before it used.
"""

from bisect import bisect_left
from struct import Struct
from typing import Final

from ottla.common.checksum import crc32c
from ottla.storage.files import Filesystem
from ottla.storage.producer_state import BatchMetadata, ProducerEntry, ProducerState
from ottla.storage.segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX, file_name

VERSION: Final = 1
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_PRODUCER: Final = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The file is no producer snapshot, or not a whole one."""


def encode_snapshot(producers: list[ProducerEntry]) -> bytes:
    body = bytearray(_COUNT.pack(len(producers)))
    for entry in producers:
        body += _PRODUCER.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    return _HEADER.pack(VERSION, crc32c(bytes(body))) + bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < _HEADER.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc != crc32c(body):
        raise CorruptSnapshot("the checksum does not match")
    count: int = _COUNT.unpack_from(body)[0]
    if len(body) != _COUNT.size + count * _PRODUCER.size:
        raise CorruptSnapshot(f"{len(body)} bytes for {count} producers")
    return [_entry(*fields) for fields in _PRODUCER.iter_unpack(body[_COUNT.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(
        producer_id, epoch, coordinator_epoch, timestamp, max(transaction_first_offset, -1)
    )
    if last_offset >= 0:
        entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    return entry


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_filesystem", "_last_taken", "directory", "offsets")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self._last_taken = 0
        self.directory = directory
        self.offsets: list[int] = []
        """Of those that are there, in order."""

    def path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def found(self, offset: int) -> None:
        """The one at ``offset`` is there."""
        at = bisect_left(self.offsets, offset)
        if at == len(self.offsets) or self.offsets[at] != offset:
            self.offsets.insert(at, offset)

    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def take(self, state: ProducerState) -> str | None:
        """Write a snapshot of ``state`` unless there is one; its path. It is not synced."""
        offset = state.end_offset
        if offset <= self._last_taken:
            return None
        producers = sorted(state.producers.values(), key=lambda entry: entry.producer_id)
        self._filesystem.write(self.path(offset), encode_snapshot(producers))
        self.found(offset)
        self._last_taken = offset
        return self.path(offset)

    def put(self, offset: int, data: bytes) -> None:
        """Keep a snapshot that somebody else has taken, of the producers before ``offset``."""
        decode_snapshot(data)
        self._filesystem.write_atomically(self.path(offset), data)
        self.found(offset)

    def read(self, offset: int) -> list[ProducerEntry]:
        """The producers as they were before ``offset``."""
        return decode_snapshot(self._filesystem.read(self.path(offset)))

    def load_latest(
        self, state: ProducerState, start_offset: int, end_offset: int, now_ms: int
    ) -> None:
        """Fill ``state`` from the latest sound one in that range; without one it is empty."""
        for offset in reversed(list(self.offsets)):
            if start_offset <= offset <= end_offset:
                try:
                    entries = self.read(offset)
                except (CorruptSnapshot, FileNotFoundError):
                    self.remove(offset)
                    continue
                state.load(entries, offset, now_ms)
                self._last_taken = offset
                return
        state.clear(start_offset)
        self._last_taken = start_offset

    def keep_between(self, low: int, high: int) -> None:
        """Remove those below ``low`` and above ``high``.

        The one at the start of a log tells of producers whose records have all gone by retention:
        what they send again must still be known. Kafka removes that one too.
        """
        for offset in [o for o in self.offsets if o < low or o > high]:
            self.remove(offset)

    def remove_strays(self, base_offsets: list[int]) -> None:
        """Remove those that belong to no segment, except the one of a clean stop, behind all."""
        known = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in known]
        if strays and strays[-1] >= base_offsets[-1]:
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def started_at(self, log_start_offset: int) -> None:
        """The log begins there now; there is nothing to tell of what was before."""
        latest = self.latest()
        self._last_taken = log_start_offset if latest is None else latest

    def remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        path = self.path(offset)
        if self._filesystem.exists(path):
            self._filesystem.remove(path)

    def remove_all(self) -> None:
        for offset in list(self.offsets):
            self.remove(offset)
        self._last_taken = 0

    def mark_deleted(self, offset: int) -> str | None:
        """Rename the one at ``offset``, whose segment goes, for a later removal."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        path = self.path(offset)
        if not self._filesystem.exists(path):
            return None
        self._filesystem.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX
