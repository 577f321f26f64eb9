"""A blocking producer of batches that are made already: what a task writes with.

Several requests are on their way to each broker, each with at most one batch of a partition. The
sequences in the batches keep a partition in order and free of duplicates, whatever is sent twice;
but a leader takes any sequence from a producer that it does not know yet, so the second batch of a
partition waits for the answer to the first.

When anything fails that may pass, everything that is on its way is waited for; then what is not
done is sent again, batch after batch of each partition, until it is done or time is over. What
cannot pass raises, names the partition, and ends the task.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.connection import Connection, close_unanswered
from ottla.client.errors import BrokerUnavailable, refusal
from ottla.client.leaders import by_leader
from ottla.client.metadata import TopicMetadata
from ottla.client.system_time import Deadline
from ottla.common.errors import RETRIABLE, ApiError, ErrorCode, ProtocolViolation
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.produce import PartitionProduceResponse, ProduceResponse
from ottla.protocol.produce_parts import (
    TOPIC_IDS,
    Piece,
    TopicBatches,
    produce_request_parts,
)
from ottla.spark.codec.encoding import EncodedBatch, ProducerIdentity
from ottla.spark.sink.transactions import PRODUCE_HIGHEST, Transaction

IN_FLIGHT_MAX: Final = 5
"""A leader recognizes as many batches of a producer when they come again."""
_ALL: Final = -1


class Delivery(NamedTuple):
    """How batches are sent."""

    request_bytes_max: int = 1 << 20
    in_flight_max: int = IN_FLIGHT_MAX
    timeout_ms: int = 120_000
    topic_timeout_ms: int = 10_000
    """How long to wait for a topic that is not there: it may be made by our asking for it."""


def _unnoted(_batch: EncodedBatch, _base_offset: int) -> None:
    pass


class _Request(NamedTuple):
    connection: Connection
    batches: list[EncodedBatch]


class RawProducer:
    """Sends the batches of one task. Not safe for several threads."""

    def __init__(
        self,
        control: Cluster,
        data: Cluster,
        delivery: Delivery,
        transaction: Transaction | None = None,
        *,
        acknowledged: Callable[[EncodedBatch, int], None] = _unnoted,
    ) -> None:
        """``control`` is asked, with nothing on its way meanwhile; ``data`` takes batches.

        ``acknowledged`` is told of each batch that is written, and at which offset it begins; below
        0 when its leader does not know any more.
        """
        self._acknowledged = acknowledged
        self._control = control
        self._data = data
        self._data.metadata = control.metadata
        self._delivery = delivery
        self._transaction = transaction
        self._filling: dict[int, list[EncodedBatch]] = {}
        self._sent: dict[int, deque[_Request]] = {}
        self._homes: dict[TopicPartition, int] = {}
        self._met: set[TopicPartition] = set()
        """Whose leaders know us."""
        self._meeting: set[TopicPartition] = set()
        """Whose first batch is on its way."""
        self.records = 0
        """How many are written and acknowledged."""

    def identify(self) -> ProducerIdentity:
        """Get an identity for the batches: the transaction's, or one of our own."""
        if self._transaction is not None:
            return ProducerIdentity(
                self._transaction.producer_id, self._transaction.epoch, transactional=True
            )
        response = self._control.ask_again(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
            InitProducerIdResponse,
            failed=lambda answer: refusal(answer.error_code) if answer.error_code else None,
        )
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    def topic(self, name: str) -> TopicMetadata:
        """A topic as it is, or its broker's reason why there is none."""
        deadline = self._control.deadline(self._delivery.topic_timeout_ms)
        return self._control.topic(name, deadline, create=True)

    def send(self, batch: EncodedBatch) -> None:
        """Take over a batch; it is on its way sooner or later."""
        while self._is_full_for(batch):
            self._dispatch(self._home(batch.target))
        self._filling.setdefault(self._home(batch.target), []).append(batch)

    def _home(self, target: TopicPartition) -> int:
        """Where the batches of a partition go: to one leader, until something fails there."""
        if target not in self._homes:
            self._homes[target] = self._control.metadata.leader(target)
        return self._homes[target]

    def _is_full_for(self, batch: EncodedBatch) -> bool:
        filling = self._filling.get(self._home(batch.target), [])
        size = sum(len(each.data) for each in filling) + len(batch.data)
        return bool(filling) and (
            size > self._delivery.request_bytes_max
            or any(each.target == batch.target for each in filling)
        )

    def flush(self) -> None:
        """All is sent and acknowledged when this returns."""
        while self._filling:
            self._dispatch(next(iter(self._filling)))
        while self._sent:
            self._receive(next(iter(self._sent)))

    def close(self) -> None:
        """Part with what is on its way, if a failure left something there."""
        close_unanswered(each.connection for queue in self._sent.values() for each in queue)
        self._sent.clear()
        self._filling.clear()

    # The fast way

    def _dispatch(self, node_id: int) -> None:
        """Send what waits for a broker, unless it came to wait for another one."""
        while (busy := self._busy(node_id)) is not None:
            self._receive(busy)
        groups = self._fitting(self._filling.pop(node_id, []))
        deadline = Deadline(self._control.clock, self._delivery.timeout_ms)
        while groups:
            try:
                if node_id < 0:
                    raise BrokerUnavailable(f"{groups[0][0].target} has no leader", [])
                request = self._send(node_id, groups[0], deadline)
            except BrokerUnavailable as error:
                undone = [batch for group in groups for batch in group]
                self._recover(undone, refusal(ErrorCode.NETWORK_EXCEPTION, str(error)))
                return
            self._sent.setdefault(node_id, deque()).append(request)
            self._meeting.update({each.target for each in groups.pop(0)} - self._met)

    def _busy(self, node_id: int) -> int | None:
        """A broker whose answer must come before more is sent to ``node_id``."""
        if len(self._sent.get(node_id, ())) >= self._delivery.in_flight_max:
            return node_id
        if any(each.target in self._meeting for each in self._filling.get(node_id, ())):
            return next(iter(self._sent), None)
        return None

    def _receive(self, node_id: int) -> None:
        """Take the oldest answer of a broker."""
        request = self._pop(node_id)
        refused = self._answers(request)
        if refused:
            undone = [each for each in request.batches if each.target in refused]
            self._recover(undone, next(iter(refused.values())))

    def _pop(self, node_id: int) -> _Request:
        queue = self._sent[node_id]
        request = queue.popleft()
        if not queue:
            del self._sent[node_id]
        return request

    def _send(self, node_id: int, batches: list[EncodedBatch], deadline: Deadline) -> _Request:
        if self._transaction is not None:
            self._transaction.add(each.target for each in batches)
        connection = self._data.connection(node_id, deadline)
        highest = None if self._transaction is None else PRODUCE_HIGHEST
        version = connection.version(ApiKey.PRODUCE, highest)
        try:
            seconds = self._control.timing.request_timeout_ms / 1000
            parts = self._parts(version, batches)
            connection.send_parts(ApiKey.PRODUCE, version, parts, seconds)
        except OSError as error:
            raise BrokerUnavailable(
                f"{connection.address} took no request", [(str(connection.address), str(error))]
            ) from error
        return _Request(connection, batches)

    def _parts(self, version: int, batches: list[EncodedBatch]) -> list[Piece]:
        topics: dict[str, list[tuple[int, Piece]]] = {}
        for (name, partition), data, _, _ in batches:
            topics.setdefault(name, []).append((partition, data))
        known = self._control.metadata.topics
        transaction = self._transaction
        return produce_request_parts(
            version,
            None if transaction is None else transaction.prepared.transactional_id,
            _ALL,
            self._control.timing.request_timeout_ms,
            [
                TopicBatches(known[name].topic_id if version >= TOPIC_IDS else name, each)
                for name, each in topics.items()
            ],
        )

    def _answers(self, request: _Request) -> dict[TopicPartition, ApiError]:
        """Read an answer: what is not done but may be. What can never be done raises."""
        try:
            response = self._response(request.connection)
        except (OSError, ProtocolViolation) as error:
            reason = f"{request.connection.address}: {error}"
            return {
                each.target: refusal(ErrorCode.NETWORK_EXCEPTION, f"{each.target}: {reason}")
                for each in request.batches
            }
        names = {each.topic_id: name for name, each in self._control.metadata.topics.items()}
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), item.index): item
            for topic in response.responses
            for item in topic.partition_responses
        }
        missing = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        refused: dict[TopicPartition, ApiError] = {}
        for batch in request.batches:
            answer = answers.get(batch.target, missing)
            if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.records += batch.records
                self._acknowledged(batch, answer.base_offset)
                self._met.add(batch.target)
                self._meeting.discard(batch.target)
                continue
            failure = _refused(batch.target, answer)
            # Behind a batch that failed the next ones are out of order, until that one is done.
            if failure.code not in RETRIABLE and not _is_out_of_order(failure):
                raise failure
            refused[batch.target] = failure
        return refused

    def _response(self, connection: Connection) -> ProduceResponse:
        if connection.closed:
            raise ConnectionResetError("it closed the connection before it answered")
        return connection.receive(ProduceResponse, self._control.timing.request_timeout_ms / 1000)

    # The sure way

    def _recover(self, undone: Iterable[EncodedBatch], error: ApiError) -> None:
        """Wait for all that is on its way, then send what is not done until it is."""
        deadline = Deadline(self._control.clock, self._delivery.timeout_ms)
        waiting: dict[TopicPartition, deque[EncodedBatch]] = {}
        for batch in undone:
            waiting.setdefault(batch.target, deque()).append(batch)
        while self._sent:
            request = self._pop(next(iter(self._sent)))
            refused = self._answers(request)
            for batch in request.batches:
                if batch.target in refused:
                    waiting.setdefault(batch.target, deque()).append(batch)
        for queue in waiting.values():
            _sort(queue)
        attempt = 0
        while waiting:
            attempt += 1
            self._control.pause(attempt, deadline)
            if deadline.passed:
                raise error
            refused = self._round(waiting, deadline)
            for failure in refused.values():
                if _is_out_of_order(failure):
                    raise failure  # nothing stands before it any more: records are missing
                error = failure
        self._leave_homes()

    def _leave_homes(self) -> None:
        """Leaders may be others now, also of what waits to be sent."""
        unsent = [batch for filling in self._filling.values() for batch in filling]
        self._filling.clear()
        self._homes.clear()
        for batch in unsent:
            self._filling.setdefault(self._home(batch.target), []).append(batch)

    def _round(
        self, waiting: dict[TopicPartition, deque[EncodedBatch]], deadline: Deadline
    ) -> dict[TopicPartition, ApiError]:
        """Send the first batch of each partition, and take those out that are done."""
        try:
            topics = sorted({target.topic for target in waiting})
            self._control.refresh(topics, deadline=deadline)
        except BrokerUnavailable as error:
            lost = refusal(ErrorCode.NETWORK_EXCEPTION, str(error))
            return dict.fromkeys(waiting, lost)
        led, refused = by_leader(self._control, waiting)
        for node_id, targets in led.items():
            for group in self._fitting([waiting[target][0] for target in targets]):
                try:
                    refused.update(self._answers(self._send(node_id, group, deadline)))
                except BrokerUnavailable as error:
                    lost = refusal(ErrorCode.NETWORK_EXCEPTION, str(error))
                    refused.update({each.target: lost for each in group})
        for target in list(waiting):
            if target not in refused:
                waiting[target].popleft()
                if not waiting[target]:
                    del waiting[target]
        return refused

    def _fitting(self, batches: list[EncodedBatch]) -> list[list[EncodedBatch]]:
        """In groups that a request takes, each of at least one."""
        groups: list[list[EncodedBatch]] = []
        size = 0
        for batch in batches:
            size += len(batch.data)
            if not groups or size > self._delivery.request_bytes_max:
                groups.append([])
                size = len(batch.data)
            groups[-1].append(batch)
        return groups


def _sort(batches: deque[EncodedBatch]) -> None:
    """By sequence, which goes on at 0: at most a few are on their way, so halves do not meet."""
    first = max((batch.sequence for batch in batches), default=0)
    wrapped = first - min((batch.sequence for batch in batches), default=0) > 1 << 30
    ordered = sorted(
        batches,
        key=lambda each: (wrapped and each.sequence < 1 << 30, each.sequence),
    )
    batches.clear()
    batches.extend(ordered)


def _is_out_of_order(error: ApiError) -> bool:
    return error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _refused(target: TopicPartition, answer: PartitionProduceResponse) -> ApiError:
    name = ErrorCode(answer.error_code).name
    reasons = [each.batch_index_error_message or "" for each in answer.record_errors[:3]]
    told = "; ".join(filter(None, [answer.error_message or "", *reasons]))
    return refusal(answer.error_code, f"{target}: {name}" + (f" ({told})" if told else ""))
