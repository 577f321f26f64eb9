"""Sends finished batches to their leaders and settles their records' promises.

A round takes at most one batch of each partition, so a leader sees the batches of a partition one
after the other, each only after it answered for the one before. A batch is stamped when it is sent
first and keeps its stamp when it is sent again: a leader that has it already says so, and all is
well.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Cluster
from ottla.client.connection import Connection, close_unanswered
from ottla.client.errors import BrokerUnavailable, refusal
from ottla.client.leaders import by_leader
from ottla.client.stamps import NO_STAMP, Stamp, Stamps
from ottla.client.system_time import Deadline
from ottla.common.errors import (
    RETRIABLE,
    ApiError,
    ErrorCode,
    ProtocolViolation,
    RequestTimedOut,
)
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.common.turn import Turn
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.builder import BatchBuilder
from ottla.records.record import Header

_TOPIC_IDS_FROM: Final = 13
_ANOTHER_ID: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""The producer id is no good any more."""
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Nobody knows what the leader has of the batch, or which sequence it expects."""


class Delivered(NamedTuple):
    """Where a record is now; the offset is -1 if no answer was asked for or it was a repetition."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class PendingBatch:
    """Records of one partition that wait to be sent, and who waits for them."""

    __slots__ = (
        "_promises",
        "_turn",
        "attempts",
        "builder",
        "deadline",
        "error",
        "last_error",
        "settled",
        "stamp",
        "target",
    )

    def __init__(self, target: TopicPartition, deadline: Deadline, turn: Turn) -> None:
        self.target = target
        self._turn = turn
        self.deadline = deadline
        self.builder = BatchBuilder()
        self.stamp: Stamp | None = None
        """From when it is sent first."""
        self.attempts = 0
        self.settled = False
        self.error: ApiError | None = None
        self.last_error: ApiError | None = None
        self._promises: list[tuple[Promise[Delivered], int]] = []

    @property
    def size(self) -> int:
        return self.builder.size

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> Promise[Delivered]:
        self.builder.append(timestamp, key, value, headers)
        promise: Promise[Delivered] = Promise(self._turn)
        self._promises.append((promise, timestamp))
        return promise

    def succeed(self, base_offset: int, append_time: int) -> None:
        self.settled = True
        topic, partition = self.target
        for delta, (promise, timestamp) in enumerate(self._promises):
            promise.fulfil(
                Delivered(
                    topic,
                    partition,
                    base_offset + delta if base_offset >= 0 else -1,
                    append_time if append_time >= 0 else timestamp,
                )
            )

    def fail(self, error: ApiError) -> None:
        self.settled = True
        self.error = error
        for promise, _ in self._promises:
            promise.fail(error)


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int,
        codec: int,
        level: int | None,
        idempotent: bool,
        request_bytes_max: int,
    ) -> None:
        self._cluster = cluster
        self._acks = acks
        self._codec = codec
        self._level = level
        self._idempotent = idempotent
        self._request_bytes_max = request_bytes_max
        self._stamps = Stamps()
        self._attempt = 0

    def send(self, batches: list[PendingBatch]) -> None:
        """One round; batches that are not settled after it are to be sent again, in order."""
        batches = [batch for batch in batches if not self._is_overdue(batch)]
        if not batches:
            return
        deadline = min((batch.deadline for batch in batches), key=lambda one: one.seconds)
        self._identify(batches, deadline)
        self._cluster.know({batch.target.topic for batch in batches}, deadline, create=True)
        pending = {batch.target: batch for batch in batches}
        led, errors = by_leader(self._cluster, pending)
        sent: list[tuple[Connection, list[PendingBatch]]] = []
        try:
            for node_id, group in led.items():
                chosen = self._fitting([pending[target] for target in group])
                try:
                    sent.append((self._send(node_id, chosen, deadline), chosen))
                except BrokerUnavailable as error:
                    lost = refusal(ErrorCode.NETWORK_EXCEPTION, str(error))
                    errors.update({batch.target: lost for batch in chosen})
            for connection, chosen in sent:
                errors.update(self._receive(connection, chosen))
        finally:
            close_unanswered(connection for connection, _ in sent)
        self._settle_failures(pending, errors, deadline)

    def _is_overdue(self, batch: PendingBatch) -> bool:
        """Fail a batch whose time is over, with what kept it."""
        if not batch.deadline.passed:
            return False
        self._fail(batch, batch.last_error or RequestTimedOut(f"{batch.target}: not sent in time"))
        return True

    def _fail(self, batch: PendingBatch, error: ApiError) -> None:
        batch.fail(error)
        if not self._idempotent or batch.stamp is None:
            return
        if error.code in _ANOTHER_ID:
            self._stamps.begin_anew(batch.target, batch.stamp, same_id=False)
        elif batch.attempts > 1 or error.code in RETRIABLE or error.code in _UNKNOWN:
            self._stamps.begin_anew(batch.target, batch.stamp)
        # else it was refused at once, is not written, and the next one takes its stamp

    def _settle_failures(
        self,
        pending: dict[TopicPartition, PendingBatch],
        errors: dict[TopicPartition, ApiError],
        deadline: Deadline,
    ) -> None:
        """Fail what cannot succeed any more; wait a little before the rest is sent again."""
        for target, error in errors.items():
            batch = pending[target]
            batch.last_error = error
            if error.code not in RETRIABLE:
                self._fail(batch, error)
        if any(error.code in RETRIABLE for error in errors.values()):
            self._cluster.expire_metadata()
            self._attempt += 1
            self._cluster.pause(self._attempt, deadline)
        else:
            self._attempt = 0

    def _fitting(self, batches: list[PendingBatch]) -> list[PendingBatch]:
        """As many as one request takes, but at least one."""
        chosen: list[PendingBatch] = []
        size = 0
        for batch in batches:
            size += batch.size
            if chosen and size > self._request_bytes_max:
                break
            chosen.append(batch)
        return chosen

    def _send(self, node_id: int, batches: list[PendingBatch], deadline: Deadline) -> Connection:
        connection = self._cluster.connection(node_id, deadline)
        version = connection.version(ApiKey.PRODUCE)
        request = self._request(version, batches)
        seconds = self._cluster.timing.request_timeout_ms / 1000
        try:
            connection.send(request, version, seconds, answered=self._acks != 0)
        except OSError as error:
            raise BrokerUnavailable(
                f"{connection.address} took no request", [(str(connection.address), str(error))]
            ) from error
        return connection

    def _request(self, version: int, batches: list[PendingBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, partition = batch.target
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData()
                if version >= _TOPIC_IDS_FROM:
                    topic.topic_id = self._cluster.metadata.topics[name].topic_id
                else:
                    topic.name = name
            topic.partition_data.append(
                PartitionProduceData(index=partition, records=self._encode(batch))
            )
        return ProduceRequest(
            acks=self._acks,
            timeout_ms=self._cluster.timing.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _encode(self, batch: PendingBatch) -> bytes:
        if batch.stamp is None:
            batch.stamp = self._stamps.next(batch.target) if self._idempotent else NO_STAMP
        batch.attempts += 1
        producer_id, epoch, sequence = batch.stamp
        return bytes(
            batch.builder.build(
                codec=self._codec,
                level=self._level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    def _receive(
        self, connection: Connection, batches: list[PendingBatch]
    ) -> dict[TopicPartition, ApiError]:
        if self._acks == 0:
            for batch in batches:
                batch.succeed(-1, -1)
            return {}
        try:
            seconds = self._cluster.timing.request_timeout_ms / 1000
            response = connection.receive(ProduceResponse, seconds)
        except (OSError, ProtocolViolation) as error:
            lost = refusal(ErrorCode.NETWORK_EXCEPTION, f"{connection.address}: {error}")
            return {batch.target: lost for batch in batches}
        answers = self._answers(response)
        missing = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        errors: dict[TopicPartition, ApiError] = {}
        for batch in batches:
            answer = answers.get(batch.target, missing)
            if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                repeated = answer.error_code != ErrorCode.NONE
                if self._idempotent and batch.stamp is not None:
                    self._stamps.written(batch.target, batch.stamp, batch.builder.count)
                batch.succeed(-1 if repeated else answer.base_offset, answer.log_append_time_ms)
            else:
                errors[batch.target] = _refused(answer)
        return errors

    def _answers(self, response: ProduceResponse) -> dict[TopicPartition, PartitionProduceResponse]:
        names = {topic.topic_id: name for name, topic in self._cluster.metadata.topics.items()}
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), item.index): item
            for topic in response.responses
            for item in topic.partition_responses
        }

    def _identify(self, batches: list[PendingBatch], deadline: Deadline) -> None:
        """Get a producer id if a batch needs one."""
        if not self._idempotent or not any(
            batch.stamp is None and self._stamps.needs_id(batch.target) for batch in batches
        ):
            return
        response = self._cluster.ask_again(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
            InitProducerIdResponse,
            node_id=ANY,
            failed=lambda answer: refusal(answer.error_code) if answer.error_code else None,
            deadline=deadline,
        )
        self._stamps.take_id(response.producer_id, response.producer_epoch)


def _refused(answer: PartitionProduceResponse) -> ApiError:
    error = refusal(answer.error_code, answer.error_message)
    error.record_errors = [
        (item.batch_index, item.batch_index_error_message or "") for item in answer.record_errors
    ]
    return error
