"""One log with a remote part on a simulated disk, store, clock and metadata topic."""

from collections.abc import Callable
from typing import Any, TypeVar

from tests.storage import logs
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, NotLeaderOrFollower
from ottla.common.promise import Promise, fulfilled
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.config.topic import TopicConfig
from ottla.observability.metrics import Registry
from ottla.records.record import Record
from ottla.records.rules import AppendOrigin
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.storage.log import Log
from ottla.storage.open_files import OpenFiles
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem
from ottla.testing.remote_store import MemoryStore
from ottla.tiered.chunks import Windows
from ottla.tiered.driver.manager import RemoteLogManager
from ottla.tiered.driver.metrics import RemoteLogMetrics
from ottla.tiered.index_cache import IndexCache
from ottla.tiered.layout import parse_key
from ottla.tiered.machine import RemotePartition
from ottla.tiered.manifests import Manifests
from ottla.tiered.metadata_topic import MetadataSlice, MetadataTopic
from ottla.tiered.reader import RemoteReader
from ottla.tiered.records import metadata_partition
from ottla.tiered.segments import SegmentState, TopicIdPartition
from ottla.tiered.settings import RemoteLogSettings

T = TypeVar("T")

OWNER = TopicIdPartition(logs.TOPIC_ID, *logs.TOPIC)
COUNT = 3
"""Partitions of the metadata topic."""
INDEX = metadata_partition(OWNER, COUNT)
BROKER = BrokerConfig.from_properties(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "1000",
    }
)


class MetadataLogs:
    """The metadata topic, in logs on the simulated disk."""

    def __init__(self, files: MemoryFilesystem, *, exists: bool) -> None:
        self._files = files
        self._logs: dict[int, Log] = {}
        self.epoch = 0
        self.distort: Callable[[MetadataSlice], MetadataSlice] = lambda found: found
        """What becomes of answers on their way."""
        self.end_error: ApiError | None = None
        self._on_made: Callable[[], None] = lambda: None
        if exists:
            self._open()

    def _open(self) -> None:
        for index in range(COUNT):
            log = open_log(
                self._files,
                f"{logs.ROOT}/{REMOTE_LOG_METADATA}-{index}",
                topic_partition=TopicPartition(REMOTE_LOG_METADATA, index),
                topic_id=bytes(15) + b"m",
                config=logs.settings(),
                now_ms=logs.NOW,
                clean_shutdown=False,
                open_files=OpenFiles(3),
            )
            log.set_high_watermark(log.log_end_offset)
            self._logs[index] = log

    def on_made(self, callback: Callable[[], None]) -> None:
        self._on_made = callback
        if self._logs:
            callback()

    def ensure(self, topic: str) -> Promise[int]:
        assert topic == REMOTE_LOG_METADATA
        if not self._logs:
            self._open()
            self._on_made()
        return fulfilled(TURN, 0)

    def partition_count(self, topic: str) -> int | None:
        return len(self._logs) or None

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        log = self._log(partition)
        info = log.append_as_leader(
            bytearray(batch),
            0,
            len(batch),
            leader_epoch=self.epoch,
            now_ms=logs.NOW,
            origin=AppendOrigin.COORDINATOR,
        )
        log.flush(logs.NOW)
        log.set_high_watermark(log.log_end_offset)
        return fulfilled(TURN, info.last_offset)

    def _log(self, partition: int) -> Log:
        if partition not in self._logs:
            raise NotLeaderOrFollower
        return self._logs[partition]

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int = -1
    ) -> Promise[MetadataSlice]:
        log = self._log(partition)
        start, high_watermark = log.log_start_offset, log.high_watermark
        end = log.end_offset_for_epoch(epoch)
        is_behind = epoch >= 0 and (end.epoch < epoch or end.end_offset < offset)
        if is_behind or offset > log.log_end_offset:
            return fulfilled(TURN, MetadataSlice(b"", start, high_watermark, is_diverged=True))
        records = logs.read_bytes(log, offset, max_bytes=max_bytes)
        return fulfilled(TURN, self.distort(MetadataSlice(records, start, high_watermark)))

    def end_offset(self, topic: str, partition: int) -> Promise[int]:
        end: Promise[int] = Promise(TURN)
        if self.end_error is not None:
            end.fail(self.end_error)
        else:
            end.fulfil(self._log(partition).high_watermark)
        return end

    def elect_uncleanly(self, partition: int, end_offset: int) -> None:
        """Somebody leads who has nothing from there on."""
        self.epoch += 1
        self._log(partition).truncate_to(end_offset, logs.NOW)


class Tier:
    """A broker's life with one led log; :meth:`crash` begins the next one."""

    def __init__(self, seed: int = 0, **topic: object) -> None:
        self.chance = Chance(seed)
        self.files = logs.filesystem()
        self.store = MemoryStore(self.files)
        self.config = tiered(**topic)
        self.exists = True
        self.image_has_topic = True
        self.checkpoint = 0
        self.distort: Callable[[MetadataSlice], MetadataSlice] = lambda found: found
        self.clock_offset = 0.0
        self.hangs = False
        """Whether the remote store answers nothing that it is asked from now on."""
        self.unanswered: list[Promise[Any]] = []
        self.start()

    def start(self) -> None:
        self.scheduler = SimulatedScheduler(self.chance)
        self.scheduler.now = self.clock_offset
        has_topic = self.files.is_directory(f"{logs.ROOT}/{REMOTE_LOG_METADATA}-0")
        self.topic = MetadataLogs(self.files, exists=has_topic)
        self.topic.distort = self.distort
        self.metadata = MetadataTopic(
            self.topic, self.topic.ensure, self.scheduler, self._metadata_led
        )
        self.topic.on_made(self._elected)
        self.log: Log | None = None
        if self.exists:
            self.log = logs.open_log(
                self.files, self.config, log_start_offset=self.checkpoint, clean=False
            )
            self.log.set_high_watermark(self.log.log_end_offset)
        self.registry = Registry()
        manifests = Manifests(self.store)
        indexes = IndexCache(
            self.files,
            logs.ROOT,
            self.store,
            manifests,
            clock=self.scheduler,
            size_max=1 << 20,
            ttl_ms=-1,
        )
        indexes.start()
        self.manager = RemoteLogManager(
            RemoteLogSettings.of(BROKER),
            store=self.store,
            reader=RemoteReader(manifests, indexes, Windows(self.store)),
            metadata=self.metadata,
            background=self._ask_store,
            scheduler=self.scheduler,
            chance=self.chance,
            log_of=lambda _: self.log,
            topic_exists=lambda _: self.exists and self.image_has_topic,
            is_current=lambda: True,
            metrics=RemoteLogMetrics(self.registry, self.scheduler),
        )
        if self.log is not None and self.log.remote_storage_enabled:
            self.manager.lead(OWNER)

    def _ask_store(self, work: Callable[[], T]) -> Promise[T]:
        if self.hangs:
            asked: Promise[T] = Promise(self.scheduler.turn)
            self.unanswered.append(asked)
            return asked
        return self.scheduler.run_in_background(work)

    def _metadata_led(self, told_of: list[RemotePartition]) -> None:
        self.manager.resume(told_of)

    def _elected(self) -> None:
        for index in range(COUNT):
            self.metadata.elected(index)

    def crash(self) -> None:
        """End the process at once, and begin the next life on what is left."""
        self.clock_offset = self.scheduler.now
        self.scheduler.forget_all()
        self.files.kill()
        self.store.fail = lambda _operation, _key: None
        self.start()

    # The log

    @property
    def local(self) -> Log:
        assert self.log is not None
        return self.log

    def fill(self, count: int, *, epoch: int = 0) -> None:
        """Append records that say where they are; about ten make a segment."""
        log = self.local
        for _ in range(count):
            logs.append(
                log,
                value_of(log.log_end_offset),
                epoch=epoch,
                timestamp=self.scheduler.wall_ms(),
                now_ms=self.scheduler.wall_ms(),
            )
        log.flush(logs.NOW)
        log.set_high_watermark(log.log_end_offset)

    def configure(self, **topic: object) -> None:
        self.config = tiered(**topic)
        self.local.configure(self.config)

    def delete_local(self) -> None:
        """What local retention does, behind a checkpoint."""
        self.local.saved_start_offset = self.local.log_start_offset
        self.local.delete_old_segments(self.scheduler.wall_ms())

    def run(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    # What there is

    @property
    def remote(self) -> RemotePartition:
        return self.metadata.find(OWNER)

    def wait_for(self, promise: Promise[T]) -> T:
        assert self.scheduler.run_until(lambda: promise.done, 60)
        return promise.result()

    def read(self, offset: int, **options: bool) -> list[Record]:
        """The records that a consumer gets from there on, from whichever tier."""
        log = self.local
        if offset >= log.local_log_start_offset:
            return logs.records_of(logs.read_bytes(log, offset))
        read = self.manager.read(
            log,
            offset,
            1000,
            upper_bound_offset=log.high_watermark,
            read_committed=options.get("read_committed", False),
        )
        return logs.records_of(self.wait_for(read).records)

    def read_all(self) -> dict[int, bytes]:
        """Everything from the log start on."""
        found: dict[int, bytes] = {}
        offset = self.local.log_start_offset
        while offset < self.local.log_end_offset:
            records = [record for record in self.read(offset) if record.offset >= offset]
            assert records, f"nothing at {offset}"
            found |= {record.offset: record.value or b"" for record in records}
            offset = records[-1].offset + 1
        return found

    def check(self) -> None:
        """All records are there, and nothing that is not known lies in the store."""
        log = self.local
        expected = range(log.log_start_offset, log.log_end_offset)
        found = self.read_all()
        assert {offset: found[offset] for offset in expected} == {
            offset: value_of(offset) for offset in expected
        }
        self.check_store()

    def check_store(self) -> None:
        for segment in self.remote.segments:
            assert segment.state is SegmentState.COPY_SEGMENT_FINISHED
            assert self.remote.segments.is_referenced(segment)
        assert self.stored_ids() == {segment.segment_id for segment in self.remote.segments}

    def stored_ids(self) -> set[bytes]:
        keys = [parse_key(key) for key in self.store.objects]
        return {key.segment_id for key in keys if key is not None}


def value_of(offset: int) -> bytes:
    return b"record %d " % offset * 5


def tiered(**changed: object) -> TopicConfig:
    values: dict[str, object] = {
        "internal_segment_bytes": 1200,
        "remote_storage_enable": "true",
        "local_retention_bytes": 0,
        **changed,
    }
    return logs.settings(**values)
