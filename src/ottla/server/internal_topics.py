"""The partitions that coordinators live on, as they see them: append and be told, read once."""

from collections.abc import Callable
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
)
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import Verification
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.verification import (
    TXN_OFFSET_COMMIT,
    TransactionVerification,
    operation_of,
    refusal,
)
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.records.rules import AppendOrigin
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.verification import VerificationGuard
from ottla.requests.context import MetadataSource

_ATTRIBUTES: Final = 22
"""Where the lower byte of a batch's attributes stands."""
_FIRST_SEQUENCE: Final = 0


class _Unverified:
    """In place of a guard, where verification is switched off."""


UNVERIFIED: Final = _Unverified()


class InternalTopics:
    """Coordinators' view of replication: writer, reader, topics and verifier in one."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataSource,
        scheduler: Scheduler,
        verification_enabled: Callable[[], bool],
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._scheduler = scheduler
        self._verification_enabled = verification_enabled
        self._verification: TransactionVerification | None = None
        """How the transaction coordinator is asked."""
        self.newest_topic_offset = -1

    def connect(self, verification: TransactionVerification) -> None:
        """Before the first request: the transaction coordinator itself writes here."""
        self._verification = verification

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on."""
        if any(topic.base is None for topic in delta.topics.changed.values()):
            self.newest_topic_offset = image.offset

    def _partition(self, topic: str, partition: int) -> Partition:
        led = self._replicas.partition(topic, partition)
        if led is None or not led.is_leader:
            if self._replicas.is_offline(topic, partition):
                raise KafkaStorageError
            raise NotLeaderOrFollower
        return led

    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> Promise[int]:
        appended: Promise[int] = Promise(self._scheduler.turn)
        try:
            led = self._partition(topic, partition)
            last_offset = self._append(led, batch, verification, transaction_version)
        except ApiError as error:
            appended.fail(error)
            return appended

        def committed(done: Promise[None]) -> None:
            try:
                done.result()
            except ApiError as error:
                appended.fail(error)
            else:
                appended.fulfil(last_offset)

        led.when_committed(last_offset).when_done(committed)
        return appended

    def _append(
        self,
        led: Partition,
        batch: bytes,
        verification: Verification | None,
        transaction_version: int,
    ) -> int:
        now_ms = self._scheduler.wall_ms()
        attributes = batch[_ATTRIBUTES]
        if attributes & CONTROL_BIT:
            return led.append_marker(batch, now_ms, transaction_version)
        if attributes & TRANSACTIONAL_BIT and verification is not UNVERIFIED:
            assert verification is None or isinstance(verification, VerificationGuard)
            return led.append_verified(batch, now_ms, verification)
        return led.append_records(batch, AppendOrigin.COORDINATOR, now_ms)

    def verify(
        self,
        topic: str,
        partition: int,
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        api_version: int,
    ) -> Promise[Verification | None]:
        return run(
            self._scheduler.turn,
            self._verify(
                TopicPartition(topic, partition),
                AddPartitions(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    frozenset({TopicPartition(topic, partition)}),
                ),
                api_version,
            ),
        )

    async def _verify(
        self, topic_partition: TopicPartition, request: AddPartitions, api_version: int
    ) -> Verification | None:
        operation = operation_of(TXN_OFFSET_COMMIT, api_version)
        if not self._verification_enabled() and not operation.supports_epoch_bump:
            return UNVERIFIED
        guard = self._partition(*topic_partition).verify(
            request.producer_id,
            request.producer_epoch,
            _FIRST_SEQUENCE,
            supports_epoch_bump=operation.supports_epoch_bump,
        )
        if guard is None:
            return None
        assert self._verification is not None
        codes = await self._verification.verify(request, operation)
        code = codes[topic_partition]
        if code is not ErrorCode.NONE:
            raise refusal(code)
        return guard

    def log_start_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.log_start_offset

    def high_watermark(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.high_watermark

    def committed_end(self, topic: str, partition: int) -> int:
        """The high watermark, once a new leader knows how much of what it has is committed."""
        led = self._partition(topic, partition)
        if led.leadership.epoch_start_offset > led.log.high_watermark:
            raise OffsetNotAvailable
        return led.log.high_watermark

    def diverges(self, topic: str, partition: int, offset: int, epoch: int) -> bool:
        """Whether the log does not have what somebody has read up to ``offset`` and ``epoch``."""
        log = self._partition(topic, partition).log
        if offset > log.log_end_offset:
            return True
        if epoch < 0 or offset < log.log_start_offset:
            return False
        end = log.end_offset_for_epoch(epoch)
        return end.epoch < epoch or end.end_offset < offset

    def log_end_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.log_end_offset

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        return self._partition(topic, partition).log.read_bytes(offset, max_bytes)

    def partition_count(self, topic: str) -> int | None:
        found = self._metadata.image.topics.by_name.get(topic)
        return None if found is None else len(found.partitions)
