"""A transaction coordinator whose log may fail, and the partitions that it tells how things ended.

The partitions are real logs on a disk in memory; the log of the coordinator is what a test moves.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.coordinator.memory_log import MemoryLog
from tests.replication.alone import alone
from tests.replication.states import lead
from tests.turns import TURN, virtual_time

from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.service import TransactionOutside, TransactionService
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.verification import TransactionVerification
from ottla.records.batch import batches, read_header
from ottla.records.control import transaction_marker_batch
from ottla.records.record import iterate
from ottla.replication.partition import Partition
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem

T = TypeVar("T")

ID = "tx"
NODE_ID = 1
PARTITIONS = 2
SETTINGS = TransactionSettings(
    timeout_check_interval_ms=1_000, topic_partitions=1, commit_timeout_ms=2_000
)


class OnePartition:
    def partition_count(self, topic: str) -> int | None:
        return 1


class ProducerIdsInOrder:
    def __init__(self) -> None:
        self.last = 100

    def next(self) -> Promise[int]:
        self.last += 1
        return fulfilled(TURN, self.last)


class Cluster:
    """A coordinator whose log may fail, and partitions that are really there."""

    def __init__(self, settings: TransactionSettings = SETTINGS) -> None:
        self.settings = settings
        self.scheduler = virtual_time(7)
        self.log = MemoryLog()
        self.producer_ids = ProducerIdsInOrder()
        self.filesystem = MemoryFilesystem()
        self.filesystem.make_directory("d")
        self.partitions = [self._partition(index) for index in range(PARTITIONS)]
        self.down: set[int] = set()
        self.travel: Callable[[], Promise[None]] = lambda: fulfilled(self.scheduler.turn, None)
        """The way of markers to the leaders of partitions."""
        self.leader_epoch = 0
        self.start()

    def _partition(self, index: int) -> Partition:
        log = open_log(
            self.filesystem,
            f"d/t-{index}",
            topic_partition=TopicPartition("t", index),
            topic_id=None,
            config=TopicConfig({}),
            now_ms=self.scheduler.wall_ms(),
        )
        partition = Partition(NODE_ID, "t", bytes(16), index, log, alone())
        lead(partition, NODE_ID, 0, (NODE_ID,))
        return partition

    def start(self) -> None:
        self.service = TransactionService(
            self.settings,
            TransactionOutside(
                writer=self.log,
                reader=self.log,
                scheduler=self.scheduler,
                topics=OnePartition(),
                producer_ids=self.producer_ids,
                markers=self,
                version=lambda: 2,
            ),
        )
        self.verification = TransactionVerification(self.service, self.settings, self.scheduler)
        self.service.elected(0, self.leader_epoch)
        self.scheduler.run_for(0)

    def ask(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The answer, which must come within this turn."""
        promise = run(self.scheduler.turn, coroutine)
        self.scheduler.run_for(0)
        return promise.result()

    def crash(self) -> None:
        """Forget everything but the log; what it did not commit may be gone with its leader."""
        now = self.scheduler.now
        self.scheduler = virtual_time(7)
        self.scheduler.now = now
        self.log.forget_waiting()
        self.leader_epoch += 1
        self.start()

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        return run(self.scheduler.turn, self._send(marker, partitions))

    async def _send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Codes:
        await self.travel()
        codes: dict[TopicPartition, ErrorCode] = {}
        for each in partitions:
            if each.partition in self.down:
                codes[each] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            now_ms = self.scheduler.wall_ms()
            batch = transaction_marker_batch(
                commit=marker.committed,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=now_ms,
            )
            try:
                self.partitions[each.partition].append_marker(
                    bytes(batch), now_ms, marker.transaction_version
                )
                codes[each] = ErrorCode.NONE
            except ApiError as error:
                codes[each] = error.code
        return codes

    def committed(self) -> TransactionMetadata | None:
        try:
            return self.service.runtime.read(0, lambda shard: shard.committed(ID))
        except ApiError:
            return None

    def latest(self) -> TransactionMetadata | None:
        """What the coordinator goes by, be it committed or not."""
        try:
            return self.service.runtime.read(0, lambda shard: shard.transactions.get(ID))
        except ApiError:
            return None

    def visible(self, index: int) -> list[bytes]:
        """What a reader of committed records has seen so far."""
        log = self.partitions[index].log
        end = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(0, end), key=lambda each: each[1])
        found = log.read(0, 1 << 20, upper_bound_offset=end, at_least_one=True)
        data = b"" if found.region is None else found.region.read()
        values: list[bytes] = []
        dropped: set[int] = set()
        for start, _ in batches(data, 0, len(data)):
            header = read_header(data, start)
            while aborted and aborted[0][1] <= header.base_offset:
                dropped.add(aborted.pop(0)[0])
            if header.is_control:
                dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                values += [bytes(record.value or b"") for record in iterate(data, start)]
        return values
