"""Logs for tests: small segments, records that say which they are, and reading them all back."""

from collections.abc import Sequence

from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.records.batch import batches
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.storage import opening
from ottla.storage.files import Filesystem
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.storage.open_files import OpenFiles
from ottla.storage.results import AppendInfo
from ottla.storage.time_search import TimestampAndOffset
from ottla.testing.files import MemoryFilesystem

NOW = 1_700_000_000_000
TOPIC = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))
ROOT = "/data"
DIRECTORY = f"{ROOT}/topic-0"


def settings(**changed: object) -> TopicConfig:
    """Settings by Kafka's names with underscores; segments of 4 KiB, dense indexes."""
    values: dict[str, object] = {
        "internal_segment_bytes": 4096,
        "index_interval_bytes": 256,
        "retention_ms": -1,
        "message_timestamp_after_max_ms": 1 << 60,
        **changed,
    }
    return TopicConfig({name.replace("_", "."): str(value) for name, value in values.items()})


def remove_due(manager: LogManager) -> int:
    """Remove what is due; how many log directories had something."""
    due = manager.removals.take_due()
    for removals in due.values():
        assert manager.removals.remove(removals) is None
    return len(due)


def filesystem() -> MemoryFilesystem:
    files = MemoryFilesystem()
    files.make_directory(ROOT)
    files.sync_directory("/")
    return files


def open_log(
    files: Filesystem,
    config: TopicConfig | None = None,
    *,
    directory: str = DIRECTORY,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = True,
    now_ms: int = NOW,
) -> Log:
    return opening.open_log(
        files,
        directory,
        topic_partition=TOPIC,
        topic_id=TOPIC_ID,
        config=config or settings(),
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean_shutdown=clean,
        open_files=OpenFiles(3),
    )


def batch(
    values: Sequence[bytes],
    *,
    timestamps: Sequence[int] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = 0,
) -> bytearray:
    records = [
        Record(key=b"k", value=value, timestamp=NOW if timestamps is None else timestamps[number])
        for number, value in enumerate(values)
    ]
    return bytearray(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            codec=codec,
        )
    )


def append(
    log: Log, *values: bytes, epoch: int = 0, timestamp: int = NOW, now_ms: int = NOW
) -> AppendInfo:
    data = batch(values, timestamps=[timestamp] * len(values))
    return log.append_as_leader(data, 0, len(data), leader_epoch=epoch, now_ms=now_ms)


def append_batch(log: Log, data: bytearray, *, epoch: int = 0, now_ms: int = NOW) -> AppendInfo:
    return log.append_as_leader(data, 0, len(data), leader_epoch=epoch, now_ms=now_ms)


def read_bytes(
    log: Log,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    upper: int | None = None,
    at_least_one: bool = True,
) -> bytes:
    upper = log.log_end_offset if upper is None else upper
    fetched = log.read(offset, max_bytes, upper_bound_offset=upper, at_least_one=at_least_one)
    return b"" if fetched.region is None else fetched.region.read()


def records_of(data: bytes) -> list[Record]:
    return [record for start, _ in batches(data) for record in iterate(data, start)]


def read_all(log: Log, *, max_bytes: int = 1000) -> list[Record]:
    """All records from the log start on, as a consumer gets them."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = records_of(read_bytes(log, offset, max_bytes=max_bytes))
        found += [record for record in records if record.offset >= offset]
        if not records:
            break
        assert records[-1].offset >= offset, "a consumer would ask for the same for ever"
        offset = records[-1].offset + 1
    return found


def values_of(log: Log) -> dict[int, bytes]:
    return {record.offset: record.value or b"" for record in read_all(log)}


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampAndOffset | None:
    """The first record that is not older than ``timestamp``, searched for here and now."""
    search = log.next_time_search(timestamp)
    while search is not None:
        found = search.run()
        if found is not None:
            return found
        search = log.next_time_search(timestamp, search)
    return None
