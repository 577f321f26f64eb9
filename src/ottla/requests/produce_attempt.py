"""A produce request from its first append to its answer: what became of its partitions so far.

A partition that took its batch is told with its offsets. What is not on disk yet, where the topic
wants that, or not on all in-sync replicas, where the producer does, is waited for.
"""

from functools import partial

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended, encode_appended
from ottla.records.batch import MAGIC, TRANSACTIONAL_BIT
from ottla.records.validation import ZSTD_FROM_PRODUCE_VERSION, refuse_zstd
from ottla.replication.partition import Partition
from ottla.requests.acknowledged_produce import Unacknowledged, finish_when_acknowledged
from ottla.requests.context import Peer, Services
from ottla.requests.current_leaders import Leaders
from ottla.requests.partitions import missing
from ottla.requests.produce_outcomes import Outcomes, Refused, finish, is_one_batch, reason
from ottla.storage.results import AppendInfo

_MAGIC = 16
_ATTRIBUTES = 22
"""Where they stand in a batch; of the attributes, the lower byte."""

Results = list[Appended | Refused]


class ProduceAttempt:
    """``denied`` are the topics that were not even tried."""

    __slots__ = (
        "_correlation_id",
        "_is_refused",
        "_peer",
        "_pending",
        "_services",
        "_unflushed",
        "mistake",
        "outcomes",
        "request",
        "version",
    )

    def __init__(
        self,
        request: ProduceView,
        version: int,
        correlation_id: int,
        services: Services,
        peer: Peer | None,
        denied: Outcomes | None,
    ) -> None:
        self.request = request
        self.version = version
        self.outcomes: Outcomes = [] if denied is None else denied
        self._correlation_id = correlation_id
        self._services = services
        self._peer = peer
        self._is_refused = denied is not None
        self._unflushed: list[Unacknowledged] | None = None
        self._pending: list[Unacknowledged] | None = None
        self.mistake: Exception | None = None
        """One of ours: there is no answer, and it costs the connection."""

    def checked(
        self,
        partition: Partition | None,
        topic: str | bytes,
        index: int,
        frame: memoryview,
        start: int,
        end: int,
        *,
        may_be_transactional: bool,
    ) -> Partition:
        """The partition, if what was sent may be tried there; or an ApiError."""
        request = self.request
        if (
            partition is None
            or not -1 <= request.acks <= 1
            or start < 0
            or (not may_be_transactional and is_transactional(frame, start, end))
        ):
            unknown = missing(self._services, topic, index) if partition is None else None
            raise reason(request, unknown, start, self.version)
        if self.version < ZSTD_FROM_PRODUCE_VERSION:
            refuse_zstd(frame, start, end, self.version)
        return partition

    def took(self, partition: Partition, info: AppendInfo, results: Results, number: int) -> None:
        """``partition`` has its batch, which is told as ``results[number]``."""
        if info.is_flush_due:
            self._unflushed = self._unflushed or []
            self._unflushed.append(Unacknowledged(partition, info.last_offset, results, number))
        elif self.request.acks < 0 and partition.log.high_watermark <= info.last_offset:
            self._pending = self._pending or []
            self._pending.append(Unacknowledged(partition, info.last_offset, results, number))

    def refused(
        self,
        index: int,
        error: ApiError,
        partition: Partition | None,
        frame: memoryview,
        start: int,
        end: int,
    ) -> Refused:
        """How a partition is told that did not take its batch."""
        self._is_refused = True
        if partition is not None:
            partition.counts.failed_produces += 1
        refusal = Refused(index, error, partition)
        refusal.is_one_batch = is_one_batch(frame, start, end)
        return refusal

    def answer(self) -> Answer | Promise[Answer] | None:
        """When all partitions were tried."""
        if self.mistake is not None:
            raise self.mistake
        acks = self.request.acks
        unflushed, pending, refused = self._unflushed, self._pending, self._is_refused
        if not refused and acks and unflushed is None and pending is None:
            return encode_appended(self._correlation_id, self.version, self.outcomes)  # type: ignore[arg-type]
        services = self._services
        finish_it = partial(
            finish,
            self.outcomes,
            self.request,
            self.version,
            self._correlation_id,
            Leaders(services, self._peer),
        )
        if acks and (unflushed is not None or pending is not None):
            return finish_when_acknowledged(
                pending or [], unflushed or [], finish_it, services, self.request, refused=refused
            )
        return finish_it(refused=refused)


def told(index: int, info: AppendInfo) -> Appended:
    return (index, info.first_offset, info.append_time, info.log_start_offset)


def is_transactional(frame: memoryview, start: int, end: int) -> bool:
    return (
        end - start > _ATTRIBUTES
        and frame[start + _ATTRIBUTES] & TRANSACTIONAL_BIT != 0
        and frame[start + _MAGIC] == MAGIC
    )
