"""Fetch (key 1): read record batches. The hot path: records go from file to socket.

The answer waits until ``min_bytes`` are there or ``max_wait_ms`` have passed, unless something went
wrong: an error is told at once. The first partition with records gives at least one batch even if
that is larger than the limits, so that a consumer always gets on.

A follower reads up to the end of the log, and by its offset says what it has: that moves the high
watermark, for which consumers wait. A consumer may read from a follower (KIP-392), up to the high
watermark that this one knows; a leader may name one in the consumer's rack.

Records that are no longer on this disk come from the remote store. The answer waits for them, at
most ``remote.fetch.max.wait.ms``; a request that waited in vain is answered without them and comes
again.

v4 is the first that is served: isolation level, last stable offset, aborted transactions; v5 log
start offset; v7 sessions (KIP-227); v9 current leader epoch (KIP-320); v11 rack (KIP-392); v12
flexible, last fetched epoch; v13 topic ids; v14 and v15 replica state (KIP-903); v16 endpoints
(KIP-951); v17 directory ids (KIP-853); v18 the follower's high watermark (KIP-1166).
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.buffers import Answer
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from ottla.common.promise import Promise, run, settle_by
from ottla.protocol.api import BROKER
from ottla.protocol.fetch_response import (
    FetchedPartition,
    NodeEndpoint,
    encode_fetch_response,
    fetch_response_size,
)
from ottla.protocol.generated.fetch import FetchRequest, FetchResponse
from ottla.protocol.message import from_buffer
from ottla.protocol.primitives import ITEMS_MAX
from ottla.replication.fetch_sessions import FetchContext, FetchedFrom, TopicKey
from ottla.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.replication.waiting import WaitingAt
from ottla.requests.context import Peer, Services
from ottla.requests.contract import HotHandler, Quota
from ottla.requests.current_leaders import Leaders
from ottla.requests.deadlines import until
from ottla.requests.hot_access import FetchAccess
from ottla.requests.metering import RequestMeter
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.partitions import missing
from ottla.requests.replica_selection import preferred_read_replica

_FOLLOWER_READS: Final = 11
_TOPIC_IDS: Final = 13
_REPLICA_STATE: Final = 15
_LEADERS: Final = 16

Fetched = list[tuple[FetchedFrom, FetchedPartition]]


def answer(
    frame: memoryview,
    pos: int,
    version: int,
    correlation_id: int,
    services: Services,
    peer: Peer | None = None,
) -> Answer | Promise[Answer]:
    request, _ = from_buffer(FetchRequest, bytes(frame), pos, version, ITEMS_MAX)
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refuse(request, version, correlation_id)
    meter = None
    if services.quotas.enforces and peer is not None and _replica(request, version)[0] < 0:
        meter = RequestMeter(services.quotas, peer, frame)
    session = services.replicas.fetch_sessions.get(request.session_id)
    if session is None:
        return _answer(request, version, correlation_id, services, peer, meter)
    before = None if session.unanswered is None else session.unanswered_of(peer)
    if before is None:
        answered = _answer(request, version, correlation_id, services, peer, meter)
    else:
        answer_it = partial(_answer, request, version, correlation_id, services, peer, meter)
        answered = run(services.scheduler.turn, _after(before, answer_it))
        answered.when_done(session.answered)
    if isinstance(answered, Promise) and not answered.done:
        session.unanswered = peer, answered
    return answered


async def _after(
    before: Promise[Answer], answer_it: Callable[[], Answer | Promise[Answer]]
) -> Answer:
    """Look at a request when the one before it is answered, as Kafka does on any connection."""
    with suppress(Exception):  # its connection hears of it
        await before
    answered = answer_it()
    return await answered if isinstance(answered, Promise) else answered


def _answer(
    request: FetchRequest,
    version: int,
    correlation_id: int,
    services: Services,
    peer: Peer | None,
    meter: RequestMeter | None,
) -> Answer | Promise[Answer]:
    sessions = services.replicas.fetch_sessions
    access = FetchAccess(services, peer) if services.authorizer.enforces else None
    if access is not None and _replica(request, version)[0] >= 0:
        if not access.may_follow():
            # Nor does it get a session, of which a follower's are safe from all others'.
            denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return encode_fetch_response(correlation_id, version, _each(request, version, denied))
        access = None
    try:
        context = sessions.open(
            request,
            uses_topic_ids=version >= _TOPIC_IDS,
            now=services.scheduler.monotonic(),
        )
    except ApiError as refusal:
        return encode_fetch_response(correlation_id, version, [], error_code=int(refusal.code))
    if meter is not None:
        _limit(request, meter, services)
    fetch = _Fetch(request, context, version, correlation_id, services, peer, access, meter)
    fetched, size, refused = fetch.read()
    if fetch.remote:
        remote = run(services.scheduler.turn, fetch.wait_for_remote(fetched))
        if context.session is not None:
            remote.when_done(context.session.answered)
        return remote
    if size >= request.min_bytes or refused or request.max_wait_ms <= 0 or not context.partitions:
        return fetch.encode(fetched)
    if meter is not None:
        meter.pause()
    waits: Promise[Answer] = Promise(services.scheduler.turn)
    services.replicas.waiting.add(
        request.min_bytes - size,
        fetch.places(),
        request.max_wait_ms,
        lambda: fetch.finish(waits),
    )
    return waits


class _Fetch:
    """One fetch request, which may have to be read twice: when it comes and when it has waited."""

    __slots__ = (
        "_access",
        "_broker_epoch",
        "_context",
        "_correlation_id",
        "_is_new",
        "_leaders",
        "_meter",
        "_peer",
        "_replica_id",
        "_request",
        "_services",
        "_version",
        "remote",
    )

    def __init__(
        self,
        request: FetchRequest,
        context: FetchContext,
        version: int,
        correlation_id: int,
        services: Services,
        peer: Peer | None,
        access: FetchAccess | None,
        meter: RequestMeter | None,
    ) -> None:
        self._request = request
        self._replica_id, self._broker_epoch = _replica(request, version)
        self._access = access
        """What a consumer may read; None where all may be read."""
        self._meter = meter
        """What the client takes; None where nobody is limited."""
        self._is_new = True
        self._context = context
        self._version = version
        self._correlation_id = correlation_id
        self._services = services
        self._peer = peer
        self._leaders: Leaders | None = None
        """Who leads what this broker does not; made when somebody must be told."""
        self.remote: list[tuple[int, Promise[FetchedPartition]]] = []
        """What is being read from the remote store, by its place among the answers."""

    def _partition(self, asked: FetchedFrom) -> Partition | None:
        replicas = self._services.replicas
        led = replicas.topic(asked.topic)
        partition = None if led is None else led.get(asked.partition)
        return partition or replicas.partition(asked.topic, asked.partition)

    def places(self) -> list[WaitingAt]:
        """Where to wait: for the end of the logs, their high watermarks, or what is committed."""
        partitions = [
            self._partition(asked)
            for asked in self._context.partitions
            if self._access is None or self._access.may_read(asked.topic)
        ]
        found = [partition for partition in partitions if partition is not None]
        if self._replica_id >= 0:
            return [partition.readers.followers for partition in found]
        if self._request.isolation_level == READ_COMMITTED:
            return [partition.readers.committed(partition.log) for partition in found]
        return [partition.readers.consumers for partition in found]

    def finish(self, waits: Promise[Answer]) -> None:
        """Answer a request that has waited."""
        settle_by(waits, self._answer_late)
        if self._context.session is not None:
            self._context.session.answered(waits)

    def _answer_late(self) -> Answer:
        if self._meter is not None:
            self._meter.resume()
        return self._overtaken() or self.encode(self.read_again())

    def _overtaken(self) -> Answer | None:
        """The refusal, if another request of the session has come meanwhile."""
        context = self._context
        if not context.is_overtaken:
            return None
        return encode_fetch_response(
            self._correlation_id,
            self._version,
            [],
            error_code=int(ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            session_id=context.session_id,
        )

    def read_again(self) -> Fetched:
        """What is there now that the request has waited."""
        self._is_new = False
        return self.read()[0]

    def read(self) -> tuple[Fetched, int, bool]:
        """Read every partition; return the answers, their bytes, and whether one was refused.

        What is to come from the remote store is noted in ``remote`` and counts in full.
        """
        request = self._request
        left = min(request.max_bytes, self._services.config.fetch_max_bytes)
        size = 0
        refused = False
        fetched: Fetched = []
        denied = 0
        for asked in self._context.partitions:
            if self._access is not None and not self._access.may_read(asked.topic):
                # What else there is may still be waited for, as in Kafka.
                denied += 1
                fetched.append((asked, self._refusal(asked, None, TopicAuthorizationFailed())))
                continue
            partition = self._partition(asked)
            try:
                if partition is None:
                    raise missing(self._services, asked.topic, asked.partition)
                read = self._read(partition, asked, min(asked.max_bytes, left), size == 0)
                if read.diverging_epoch is not None or read.preferred_read_replica >= 0:
                    refused = True
            except OffsetMovedToTieredStorage:
                limit = min(asked.max_bytes, left)
                read = self._read_remote(partition, asked, limit, len(fetched))
                refused = refused or read.error_code != 0
                left = max(0, left - limit)
            except ApiError as error:
                refused = True
                read = self._refusal(asked, partition, error)
            got = read.size
            size += got
            left = max(0, left - got)
            fetched.append((asked, read))
        return fetched, size, refused or denied == len(fetched) > 0

    def _read(
        self, partition: Partition, asked: FetchedFrom, max_bytes: int, at_least_one: bool
    ) -> FetchedPartition:
        if self._replica_id >= 0:
            return self._read_for_follower(partition, asked, max_bytes, at_least_one)
        if self._request.rack_id and self._services.config.replica_selector_class is not None:
            nearer = self._nearer_replica(partition, asked)
            if nearer is not None:
                return nearer
        return partition.read(
            asked.offset,
            max_bytes,
            asked.current_leader_epoch,
            self._request.isolation_level,
            at_least_one=at_least_one,
            last_fetched_epoch=asked.last_fetched_epoch,
            from_leader_only=self._version < _FOLLOWER_READS,
        )

    def _read_for_follower(
        self, partition: Partition, asked: FetchedFrom, max_bytes: int, at_least_one: bool
    ) -> FetchedPartition:
        read = partition.fetch_as_follower(
            self._replica_id,
            self._broker_epoch,
            asked.offset,
            max_bytes,
            asked.current_leader_epoch,
            at_least_one=at_least_one,
            log_start_offset=asked.follower_log_start_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            is_new=self._is_new,
        )
        throttle = self._services.replicas.leader_throttle
        if throttle is not None and read.size:
            if throttle.holds_back(partition, self._replica_id):
                read.records = b""
            else:
                throttle.served(partition, read.size)
        return read

    def _nearer_replica(self, partition: Partition, asked: FetchedFrom) -> FetchedPartition | None:
        """Where the consumer should rather read, if that is elsewhere."""
        replica = preferred_read_replica(
            partition, asked.offset, self._request.rack_id, self._services, self._peer
        )
        if replica is None:
            return None
        partition.check_epoch(asked.current_leader_epoch)
        log = partition.log
        answer = FetchedPartition(
            partition.index, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset
        )
        answer.records = b""
        answer.preferred_read_replica = replica
        return answer

    def _refusal(
        self, asked: FetchedFrom, partition: Partition | None, error: ApiError
    ) -> FetchedPartition:
        refusal = FetchedPartition(asked.partition, int(error.code), records=b"")
        if partition is None:
            refusal.aborted = []
        else:
            partition.counts.failed_fetches += 1
        if self._version >= _LEADERS and error.code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            if self._leaders is None:
                self._leaders = Leaders(self._services, self._peer)
            refusal.current_leader = self._leaders.of(asked.topic, asked.partition)
        return refusal

    def _read_remote(
        self, partition: Partition | None, asked: FetchedFrom, max_bytes: int, place: int
    ) -> FetchedPartition:
        """Begin to read from the remote store; the answer of a partition that must wait for it."""
        remote_logs = self._services.remote_logs
        assert partition is not None
        if self._replica_id >= 0:
            return self._refusal(asked, partition, OffsetMovedToTieredStorage())
        if remote_logs is None:
            return self._refusal(asked, partition, OffsetOutOfRange())
        isolation_level = self._request.isolation_level
        if max_bytes > 0:
            read = partition.read_remote(remote_logs, asked.offset, max_bytes, isolation_level)
            self.remote.append((place, read))
        log = partition.log
        nothing = FetchedPartition(
            asked.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            b"",
        )
        nothing.aborted = [] if isolation_level == READ_COMMITTED else None
        return nothing

    async def wait_for_remote(self, fetched: Fetched) -> Answer:
        """The answer with what the remote store gives within the time that it has."""
        scheduler = self._services.scheduler
        if self._meter is not None:
            self._meter.pause()
        wait_ms = self._services.config.remote_fetch_max_wait_ms
        waits = [(place, until(scheduler, wait_ms, read)) for place, read in self.remote]
        for place, read in waits:
            asked, _ = fetched[place]
            try:
                fetched[place] = asked, await read
            except RequestTimedOut:
                continue
            except ApiError as error:
                refusal = self._refusal(asked, self._partition(asked), error)
                fetched[place] = asked, refusal
        if self._meter is not None:
            self._meter.resume()
        return self._overtaken() or self.encode(fetched)

    def _throttled(self, fetched: Fetched, meter: RequestMeter) -> Answer | None:
        """The answer to a client that must wait first: nothing, and its session as it was."""
        context, version = self._context, self._version
        told: list[tuple[TopicKey, list[FetchedPartition]]] = []
        for asked, read in fetched:
            if context.incremental and not asked.is_news(read):
                continue
            if not told or told[-1][0] != asked.topic:
                told.append((asked.topic, []))
            told[-1][1].append(read)
        waits_ms = meter.fetched(fetch_response_size(version, told))
        if not waits_ms:
            return None
        if context.session is not None and not context.incremental:
            # It has not heard of the session, and begins another one.
            self._services.replicas.fetch_sessions.withdraw(context.session)
            context.session = None
        nothing = encode_fetch_response(
            self._correlation_id, version, [], session_id=context.session_id
        )
        return meter.throttled(nothing, FetchResponse, waits_ms)

    def encode(self, fetched: Fetched) -> Answer:
        throttled = None if self._meter is None else self._throttled(fetched, self._meter)
        if throttled is not None:
            return throttled
        context = self._context
        session = context.session
        topics: list[tuple[TopicKey, list[FetchedPartition]]] = []
        last: TopicKey | None = None
        for asked, read in fetched:
            if session is not None:
                news = asked.has_news(read)
                if context.incremental and not news:
                    continue
                if read.size:
                    session.move_to_end(asked)
            if asked.topic != last:
                last = asked.topic
                topics.append((last, []))
            topics[-1][1].append(read)
            if read.size and self._replica_id < 0:
                partition = self._partition(asked)
                if partition is not None:
                    partition.counts.bytes_out += read.size
        # A follower knows the brokers by itself; Kafka tells it only who leads.
        leaders = self._leaders if self._replica_id < 0 else None
        endpoints = [] if leaders is None else leaders.addresses()
        return encode_fetch_response(
            self._correlation_id,
            self._version,
            topics,
            session_id=context.session_id,
            endpoints=[NodeEndpoint(at.node_id, at.host, at.port, at.rack) for at in endpoints],
        )


def _limit(request: FetchRequest, meter: RequestMeter, services: Services) -> None:
    """Let the client ask for no more than it may get at once."""
    meter.resume()
    most = meter.most_fetched()
    if most is not None:
        request.max_bytes = min(request.max_bytes, services.config.fetch_max_bytes, int(most))
        request.min_bytes = min(request.min_bytes, request.max_bytes)


def _replica(request: FetchRequest, version: int) -> tuple[int, int]:
    """The follower that asks and its broker epoch; -1 for a consumer, and when it does not say."""
    if version < _REPLICA_STATE:
        return request.replica_id, -1
    return request.replica_state.replica_id, request.replica_state.replica_epoch


def _each(
    request: FetchRequest, version: int, code: int
) -> list[tuple[TopicKey, list[FetchedPartition]]]:
    """Every partition that a request names, with the same error."""
    topics: list[tuple[TopicKey, list[FetchedPartition]]] = []
    for topic in request.topics:
        partitions = [FetchedPartition(p.partition, code, records=b"") for p in topic.partitions]
        for partition in partitions:
            partition.aborted = []
        topics.append((topic.topic if version < _TOPIC_IDS else topic.topic_id, partitions))
    return topics


def _refuse(request: FetchRequest, version: int, correlation_id: int) -> Answer:
    """Refuse the whole request for an isolation level that does not exist."""
    code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    topics = _each(request, version, code) if version < _TOPIC_IDS else []
    return encode_fetch_response(
        correlation_id, version, topics, error_code=code, session_id=request.session_id
    )


HANDLER: Final = HotHandler(
    FetchRequest,
    answer,
    needs=[
        ByHandler(AclOperation.READ, ResourceType.TOPIC, Effect.EACH),
        ByHandler(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, Effect.EACH),
    ],
    quota=Quota.FETCH,
    listeners=frozenset({BROKER}),
)
