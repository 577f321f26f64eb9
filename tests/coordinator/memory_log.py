"""Partitions in memory, whose high watermark a test moves as it likes."""

from collections import defaultdict
from collections.abc import Collection

from tests.turns import TURN

from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import Verification
from ottla.records.batch import read_header, set_base_offset_and_epoch
from ottla.records.record import Record, iterate


def compacted(batches: list[bytes], high_watermark: int) -> list[bytes]:
    """Without batches of which nothing counts any more; transactions and the last one stay."""
    below = [each for each in batches if read_header(each).last_offset < high_watermark]
    newest = {record.key: record.offset for each in below for record in iterate(each)}
    kept: list[bytes] = []
    seen: set[bytes | None] = set()
    for batch in batches:
        records = list(iterate(batch))
        counts = any(
            newest.get(each.key) == each.offset and (each.value is not None or each.key in seen)
            for each in records
        )
        is_plain = read_header(batch).producer_id < 0
        if counts or not is_plain or batch not in below or batch is batches[-1]:
            kept.append(batch)
            seen.update(each.key for each in records)
    return kept


class _Log:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.waiting: list[tuple[int, Promise[int]]] = []


class MemoryLog:
    """What a coordinator writes to and reads from.

    Appends are committed at once, unless ``hold`` is set: then ``commit`` does it. ``refuse`` is
    the error that the next appends meet, before anything is written.
    """

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, _Log] = defaultdict(_Log)
        self.hold = False
        self.refuse: ApiError | None = None
        self.read_error: ApiError | None = None
        self.watermark_error: ApiError | None = None
        self.appends = 0

    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> Promise[int]:
        promise: Promise[int] = Promise(TURN)
        if self.refuse is not None:
            promise.fail(self.refuse)
            return promise
        self.appends += 1
        log = self._logs[TopicPartition(topic, partition)]
        stamped = bytearray(batch)
        set_base_offset_and_epoch(stamped, 0, log.end, 0)
        log.batches.append(bytes(stamped))
        log.end = read_header(stamped).last_offset + 1
        log.waiting.append((log.end - 1, promise))
        if not self.hold:
            self.commit(topic, partition)
        return promise

    def commit(self, topic: str, partition: int, high_watermark: int | None = None) -> None:
        """Move the high watermark, to the log end offset unless said otherwise."""
        log = self._logs[TopicPartition(topic, partition)]
        log.high_watermark = log.end if high_watermark is None else high_watermark
        due = [each for each in log.waiting if each[0] < log.high_watermark]
        log.waiting = [each for each in log.waiting if each[0] >= log.high_watermark]
        for last_offset, promise in due:
            promise.fulfil(last_offset)

    def drop_batches(self, topic: str, partition: int, indexes: Collection[int]) -> None:
        """As compaction does; the log ends where it did."""
        log = self._logs[TopicPartition(topic, partition)]
        kept = [each for index, each in enumerate(log.batches) if index not in indexes]
        log.batches = kept

    def compact(self, topic: str, partition: int) -> None:
        log = self._logs[TopicPartition(topic, partition)]
        log.batches = compacted(log.batches, log.high_watermark)

    def forget_waiting(self) -> None:
        """The writer is gone."""
        for log in self._logs.values():
            log.waiting.clear()

    def lose_uncommitted(self, topic: str, partition: int, error: ApiError) -> None:
        """Cut the log at the high watermark, as a new leader may make us do."""
        log = self._logs[TopicPartition(topic, partition)]
        log.batches = [
            batch for batch in log.batches if read_header(batch).last_offset < log.high_watermark
        ]
        log.end = log.high_watermark
        waiting, log.waiting = log.waiting, []
        for _, promise in waiting:
            promise.fail(error)

    def log_start_offset(self, topic: str, partition: int) -> int:
        return self._logs[TopicPartition(topic, partition)].start

    def high_watermark(self, topic: str, partition: int) -> int:
        if self.watermark_error is not None:
            raise self.watermark_error
        return self._logs[TopicPartition(topic, partition)].high_watermark

    def log_end_offset(self, topic: str, partition: int) -> int:
        return self._logs[TopicPartition(topic, partition)].end

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise self.read_error
        data = b""
        for batch in self._logs[TopicPartition(topic, partition)].batches:
            if read_header(batch).last_offset < offset:
                continue
            if data and len(data) + len(batch) > max_bytes:
                break
            data += batch
        return data

    def records(self, topic: str, partition: int) -> list[Record]:
        batches = self._logs[TopicPartition(topic, partition)].batches
        return [record for batch in batches for record in iterate(batch)]
