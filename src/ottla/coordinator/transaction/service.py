"""The transaction coordinator of this broker: what the handlers ask.

A transactional id belongs to the partition of ``__transaction_state`` that it hashes to, and thus
to the broker that leads it. Refusals are ApiErrors that clients expect from a coordinator.

Where an answer needs a producer id that nobody has yet, it is fetched before the request is carried
out: what the shard looks like then is looked at again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ConcurrentTransactions,
    ErrorCode,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotCoordinator,
    TransactionalIdNotFound,
)
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import (
    EndTransactionMarker,
    PartitionReader,
    PartitionWriter,
    RuntimeOutside,
    Topics,
)
from ottla.coordinator.partition import Operation
from ottla.coordinator.partitioner import partition_of
from ottla.coordinator.runtime import CoordinatorRuntime, client_error
from ottla.coordinator.shard import Outcome
from ottla.coordinator.transaction import ending, initializing
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.listing import Filters, Listed
from ottla.coordinator.transaction.markers import Codes, MarkerSender
from ottla.coordinator.transaction.metadata import (
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from ottla.coordinator.transaction.records import TransactionRecordFormat
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions, TransactionShard
from ottla.coordinator.transaction.state import TransactionState
from ottla.observability.logging import logger

log = logger(__name__)

T = TypeVar("T")

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"

_BATCH_BYTES: Final = 64 * 1024
_LOAD_BYTES_MAX: Final = 256 * 1024
"""What is replayed in one turn of the loop, so that others are served while a log is loaded."""


class ProducerIds(Protocol):
    def next(self) -> Promise[int]:
        """Return a producer id that nobody else has."""
        ...


class TransactionOutside(NamedTuple):
    """What the coordinator is given."""

    writer: PartitionWriter
    reader: PartitionReader
    scheduler: Scheduler
    topics: Topics
    producer_ids: ProducerIds
    markers: MarkerSender
    version: Callable[[], int]
    """The version of transactions that the cluster has agreed on (``transaction.version``)."""


class TransactionService:
    def __init__(self, settings: TransactionSettings, outside: TransactionOutside) -> None:
        self._settings = settings
        self._outside = outside
        of_runtime = RuntimeOutside(
            writer=outside.writer,
            reader=outside.reader,
            scheduler=outside.scheduler,
            commit_timeout_ms=settings.commit_timeout_ms,
            load_bytes=min(settings.load_buffer_bytes, _LOAD_BYTES_MAX),
            batch_bytes=_BATCH_BYTES,
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            of_runtime,
            lambda timeline, timers: TransactionShard(
                timeline, timers, settings, outside.version, self._send
            ),
            TransactionRecordFormat(),
        )

    # Leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of ``__transaction_state``; its log is open."""
        self.runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        self.runtime.resigned(partition, leader_epoch)

    def stop(self) -> None:
        self.runtime.stop()

    def partition_for(self, transactional_id: str) -> int:
        count = self._outside.topics.partition_count(TRANSACTION_STATE_TOPIC)
        return partition_of(transactional_id, count or self._settings.topic_partitions)

    # Producers

    async def init_producer_id(self, request: InitProducerId) -> ProducerIdAndEpoch:
        if not request.transactional_id:
            raise InvalidRequest
        if not 0 < request.timeout_ms <= self._settings.timeout_ms_max:
            raise InvalidTransactionTimeout
        transactional_id = request.transactional_id
        new_producer_id = None
        if self._read(
            transactional_id, lambda known: initializing.needs_producer_id(known, request)
        ):
            new_producer_id = await self._outside.producer_ids.next()
        producer = await self._write(
            transactional_id,
            lambda shard, now_ms: shard.init_producer_id(request, new_producer_id, now_ms),
        )
        if producer is None:
            raise ConcurrentTransactions
        return producer

    async def add_partitions(self, request: AddPartitions) -> Codes:
        _check_id(request.transactional_id)
        await self._write(
            request.transactional_id, lambda shard, now_ms: shard.add(request, now_ms)
        )
        return dict.fromkeys(sorted(request.partitions), ErrorCode.NONE)

    async def verify_partitions(self, request: AddPartitions) -> Codes:
        """For each partition whether it is part of the transaction, and may be written to."""
        _check_id(request.transactional_id)
        return await self._write(
            request.transactional_id, lambda shard, _now_ms: Outcome([], shard.verify(request))
        )

    async def end(self, request: EndTransaction) -> ProducerIdAndEpoch:
        """Decide the outcome; the partitions are told while the producer has its answer."""
        _check_id(request.transactional_id)
        transactional_id = request.transactional_id
        new_producer_id = None
        if self._read(transactional_id, lambda known: ending.needs_producer_id(known, request)):
            new_producer_id = await self._outside.producer_ids.next()
        return await self._write(
            transactional_id,
            lambda shard, now_ms: shard.end(request, new_producer_id, now_ms),
        )

    # People

    def describe(self, transactional_id: str) -> TransactionMetadata:
        _check_id(transactional_id)
        partition = self.partition_for(transactional_id)
        found, remaining = self.runtime.read(
            partition,
            lambda shard: (
                shard.committed(transactional_id),
                shard.markers.remaining(transactional_id),
            ),
        )
        if found is None or found.state is TransactionState.DEAD:
            raise TransactionalIdNotFound
        if found.state.is_prepared and remaining is not None:
            return found._replace(partitions=remaining)
        return found

    def list_transactions(self, filters: Filters) -> list[Listed]:
        """All transactions that this broker coordinates and ``filters`` let through."""
        now_ms = self._outside.scheduler.wall_ms()
        listed: list[Listed] = []
        for partition in self.runtime.partitions():
            try:
                listed += self.runtime.read(
                    partition, lambda shard: filters.apply(shard.all_committed(), now_ms)
                )
            except NotCoordinator:
                continue
        return listed

    # The shard of a transactional id

    def _read(
        self, transactional_id: str, question: Callable[[TransactionMetadata | None], T]
    ) -> T:
        """What is so now; the request itself looks again."""
        return self.runtime.read(
            self.partition_for(transactional_id),
            lambda shard: question(shard.transactions.get(transactional_id)),
        )

    async def _write(self, transactional_id: str, operation: Operation[TransactionShard, T]) -> T:
        try:
            return await self.runtime.write(self.partition_for(transactional_id), operation)
        except ApiError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                log.info("producer fenced", transactional_id=transactional_id)
            raise client_error(error) from None

    def _send(
        self,
        transactional_id: str,
        metadata: TransactionMetadata,
        partitions: tuple[TopicPartition, ...],
    ) -> Promise[Codes]:
        partition = self.partition_for(transactional_id)
        marker = EndTransactionMarker(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=self.runtime.leader_epoch(partition),
            committed=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_version,
        )
        return self._outside.markers.send(marker, partitions)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest


def error_of(code: ErrorCode, fenced_since: int, version: int) -> ErrorCode:
    """PRODUCER_FENCED as clients before ``fenced_since`` know it."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
