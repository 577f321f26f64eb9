"""Writing records: batches per partition, sent to their leaders, sent again where that helps.

``send`` only buffers; what is full goes out on the way, the rest with ``flush``. Order holds within
a partition. With idempotence, which is the default with acks=all, nothing is written twice.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from ottla.client.cluster import Cluster, Timing
from ottla.client.errors import refusal
from ottla.client.partitioner import StickyPartitioner, partition_of_key
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.client.sender import Delivered, PendingBatch, Sender
from ottla.client.system_time import Deadline, WaitingClock
from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, MessageTooLarge
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.common.turn import Turn, at_once
from ottla.records.batch import HEADER_SIZE
from ottla.records.builder import RECORD_OVERHEAD_MAX
from ottla.records.compression import CODECS
from ottla.records.record import Header

ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}


class Producer:
    """Not safe for several threads. A ``with`` block flushes and closes at its end."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        acks: str | int = "all",
        compression: str = "none",
        compression_level: int | None = None,
        idempotent: bool | None = None,
        batch_bytes: int = 64 << 10,
        request_bytes_max: int = 1 << 20,
        record_bytes_max: int | None = None,
        buffered_bytes_max: int = 32 << 20,
        delivery_timeout_ms: int = 120_000,
        client_id: str = "ottla-producer",
        timing: Timing | None = None,
        security: ClientSecurity = UNSECURED,
        clock: WaitingClock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """A record larger than a request may be goes alone, if ``record_bytes_max`` allows it."""
        acks_code = ACKS[str(acks)]
        if idempotent and acks_code != -1:
            raise ValueError("idempotence needs acks=all")
        self.cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            timing=timing,
            security=security,
            clock=clock,
        )
        self._sender = Sender(
            self.cluster,
            acks=acks_code,
            codec=CODECS[compression],
            level=compression_level,
            idempotent=acks_code == -1 if idempotent is None else idempotent,
            request_bytes_max=request_bytes_max,
        )
        self._request_bytes_max = request_bytes_max
        self._record_bytes_max = record_bytes_max or request_bytes_max
        self._batch_bytes = min(batch_bytes, request_bytes_max)
        self._buffered_bytes_max = buffered_bytes_max
        self._delivery_timeout_ms = delivery_timeout_ms
        self._partitioner = StickyPartitioner(chance or Chance())
        self._open: dict[TopicPartition, PendingBatch] = {}
        self._finished: dict[TopicPartition, deque[PendingBatch]] = {}
        self._finished_bytes = 0
        self._buffered_bytes = 0
        self._failure: ApiError | None = None
        self._turn = Turn(at_once)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Part with the cluster; what was not flushed fails."""
        lost = refusal(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before it was sent")
        for target in list(self._open):
            self._finish(target)
        for queue in self._finished.values():
            for batch in queue:
                batch.fail(lost)
        self._finished.clear()
        self.cluster.close()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Promise[Delivered]:
        """Buffer a record; the promise is settled once it is delivered or has failed."""
        size = _size_bound(key, value, headers)
        if size > self._record_bytes_max:
            raise MessageTooLarge(
                f"a record of {size} bytes exceeds max.request.size={self._record_bytes_max}"
            )
        if timestamp is None:
            timestamp = self.cluster.clock.wall_ms()
        target = TopicPartition(topic, self._choose(topic, key, partition))
        batch = self._open.get(target)
        if batch is not None and batch.size + size > self._batch_bytes:
            self._finish(target)
            batch = None
        if batch is None:
            deadline = Deadline(self.cluster.clock, self._delivery_timeout_ms)
            batch = self._open[target] = PendingBatch(target, deadline, self._turn)
        before = batch.size
        promise = batch.append(timestamp, key, value, headers)
        self._buffered_bytes += batch.size - before
        if batch.size >= self._batch_bytes:
            self._finish(target)
        if self._buffered_bytes >= self._buffered_bytes_max:
            self._drain()
        while self._finished_bytes >= self._request_bytes_max:
            self._deliver()
        return promise

    def flush(self) -> None:
        """Send everything and wait for the answers; then raise the first failure, if any.

        BrokerUnavailable leaves what is left in the buffer: flush again, or close.
        """
        self._drain()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _drain(self) -> None:
        for target in list(self._open):
            self._finish(target)
        while self._finished:
            self._deliver()

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> int:
        known = self.cluster.topic(topic, create=True)
        if partition is not None:
            if partition not in known.partitions:
                raise refusal(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has no partition {partition}",
                )
            return partition
        if key is not None:
            return partition_of_key(key, len(known.partitions))
        return self._partitioner.partition(known)

    def _finish(self, target: TopicPartition) -> None:
        """Close the batch of a partition: it is to be sent, the next record begins another."""
        batch = self._open.pop(target)
        self._partitioner.batch_is_full(target.topic, target.partition)
        self._finished.setdefault(target, deque()).append(batch)
        self._finished_bytes += batch.size

    def _deliver(self) -> None:
        """One round: the first finished batch of each partition."""
        try:
            self._sender.send([queue[0] for queue in self._finished.values()])
        finally:  # what is settled is over, also when nobody was there for the rest
            self._let_go()

    def _let_go(self) -> None:
        for target, queue in list(self._finished.items()):
            batch = queue[0]
            if not batch.settled:
                continue
            queue.popleft()
            if not queue:
                del self._finished[target]
            self._finished_bytes -= batch.size
            self._buffered_bytes -= batch.size - HEADER_SIZE
            if batch.error is not None:
                self._failure = self._failure or batch.error


def _size_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """No less than what the record takes in a batch of its own."""
    size = HEADER_SIZE + RECORD_OVERHEAD_MAX + len(key or b"") + len(value or b"")
    for name, header_value in headers:
        size += 10 + 4 * len(name) + len(header_value or b"")
    return size
