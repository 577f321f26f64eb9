"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that it need not say so.

A session is begun by a full request with session id 0 and epoch 0; then each request carries the
next epoch and only what changed, and each answer only the partitions that have something new.

Rules:
1. A request with another epoch than the expected one is refused: the client begins anew.
2. The number of sessions is bounded (``max.incremental.fetch.session.cache.slots``). A new one may
   take the place of one that was unused for two minutes, or of one that is as old as that and
   smaller. The sessions of followers count for more than any others: theirs are larger than every
   consumer's, and take the place of a consumer's of any age.
3. A session of which nothing is left ends.
4. A request that another one of its session overtakes is answered INVALID_FETCH_SESSION_EPOCH. On
   one connection none overtakes: each is looked at when the one before it is answered.
"""

from typing import TypeAlias

from ottla.common.buffers import Answer
from ottla.common.chance import Chance
from ottla.common.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ottla.common.promise import Promise
from ottla.protocol.fetch_response import FetchedPartition
from ottla.protocol.generated.fetch import FetchRequest
from ottla.replication.evictable_sessions import EvictableSessions

TopicKey: TypeAlias = str | bytes
"""A name up to version 12, a topic id from 13 on."""

SESSION_EVICTION_MS = 120_000
"""How long a session is safe from newer ones; not a setting in Kafka either."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0


class FetchedFrom:
    """One partition that a client fetches, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "follower_log_start_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "offset",
        "partition",
        "topic",
    )

    def __init__(self, topic: TopicKey, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.follower_log_start_offset = -1
        """Where the log of a follower that asks begins."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, fetched: FetchedPartition) -> bool:
        """What :meth:`has_news` would say, before anything is remembered."""
        return (
            fetched.size > 0
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
            or fetched.error_code != 0
            or fetched.preferred_read_replica != -1
            or fetched.diverging_epoch is not None
        )

    def has_news(self, fetched: FetchedPartition) -> bool:
        """Whether an incremental answer must speak of this partition; remember what it says."""
        news = fetched.size > 0
        if fetched.high_watermark != self.high_watermark:
            self.high_watermark = fetched.high_watermark
            news = True
        if fetched.log_start_offset != self.log_start_offset:
            self.log_start_offset = fetched.log_start_offset
            news = True
        if fetched.error_code:
            # Told again in the next answer, until the client has seen to it.
            self.high_watermark = -1
            news = True
        return news or fetched.preferred_read_replica != -1 or fetched.diverging_epoch is not None


class FetchSession:
    __slots__ = (
        "created",
        "epoch",
        "is_over",
        "is_privileged",
        "last_used",
        "partitions",
        "session_id",
        "unanswered",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, *, uses_topic_ids: bool, is_privileged: bool, now: float
    ) -> None:
        self.session_id = session_id
        self.is_privileged = is_privileged
        """Whether it is a follower's."""
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH
        self.created = now
        self.last_used = now
        self.is_over = False
        """Whether it has ended, or had to make room; a request that came before may be answered."""
        self.unanswered: tuple[object, Promise[Answer]] | None = None
        """The last request that has to wait, and the connection that it came by."""
        self.partitions: dict[tuple[TopicKey, int], FetchedFrom] = {}

    def unanswered_of(self, peer: object) -> Promise[Answer] | None:
        """The last request that came by a connection, if it is still to be answered."""
        if self.unanswered is None or self.unanswered[0] is not peer:
            return None
        return self.unanswered[1]

    def answered(self, request: Promise[Answer]) -> None:
        if self.unanswered is not None and self.unanswered[1] is request:
            self.unanswered = None

    def update(self, request: FetchRequest) -> None:
        """Take what a request adds, changes and forgets."""
        _take_partitions(request, self.partitions, uses_topic_ids=self.uses_topic_ids)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((topic, index), None)

    @property
    def worth(self) -> tuple[bool, int]:
        return self.is_privileged, len(self.partitions)

    def move_to_end(self, served: FetchedFrom) -> None:
        """Let the others go first next time, so that none starves."""
        key = (served.topic, served.partition)
        if key in self.partitions:
            self.partitions[key] = self.partitions.pop(key)


def _take_partitions(
    request: FetchRequest,
    into: dict[tuple[TopicKey, int], FetchedFrom],
    *,
    uses_topic_ids: bool,
) -> None:
    for topic in request.topics:
        name: TopicKey = topic.topic_id if uses_topic_ids else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            fetched = into.get(key)
            if fetched is None:
                fetched = into[key] = FetchedFrom(name, asked.partition)
            fetched.offset = asked.fetch_offset
            fetched.max_bytes = asked.partition_max_bytes
            fetched.current_leader_epoch = asked.current_leader_epoch
            fetched.last_fetched_epoch = asked.last_fetched_epoch
            fetched.follower_log_start_offset = asked.log_start_offset


class FetchContext:
    """What one request fetches, and how its answer is cut down to what is new."""

    __slots__ = ("_epoch", "incremental", "partitions", "session")

    def __init__(
        self,
        session: FetchSession | None,
        partitions: list[FetchedFrom],
        *,
        incremental: bool,
    ) -> None:
        self.session = session
        self.partitions = partitions
        self.incremental = incremental
        self._epoch = NO_SESSION if session is None else session.epoch

    @property
    def is_overtaken(self) -> bool:
        """Whether another request of the session has come before this one was answered."""
        return self.incremental and self.session is not None and self.session.epoch != self._epoch

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    def __init__(self, *, slots: int, eviction_ms: int, chance: Chance) -> None:
        self.slots = slots
        self.eviction_ms = eviction_ms
        self._chance = chance
        self._sessions: dict[int, FetchSession] = {}
        self._evictable = EvictableSessions()
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now: float) -> FetchContext:
        """Find out what ``request`` fetches; ApiError when its session is not what it thinks."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, uses_topic_ids=uses_topic_ids, now=now)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if epoch != session.epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError
        session.last_used = now
        if request.topics or request.forgotten_topics_data:
            before = len(session.partitions)
            session.update(request)
            if len(session.partitions) != before:
                self._evictable.resized(session)
        if not session.partitions:
            self._end(session)
            return FetchContext(None, [], incremental=False)
        session.epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        return FetchContext(session, list(session.partitions.values()), incremental=True)

    def _full(self, request: FetchRequest, *, uses_topic_ids: bool, now: float) -> FetchContext:
        replaced = self._sessions.get(request.session_id)
        if replaced is not None:
            self._end(replaced)
        partitions: dict[tuple[TopicKey, int], FetchedFrom] = {}
        _take_partitions(request, partitions, uses_topic_ids=uses_topic_ids)
        session = None
        if request.session_epoch == INITIAL_EPOCH:
            # A follower says its id in one place or the other, by the version of its request.
            is_follower = max(request.replica_id, request.replica_state.replica_id) >= 0
            session = self._begin(
                partitions, is_follower=is_follower, uses_topic_ids=uses_topic_ids, now=now
            )
        return FetchContext(session, list(partitions.values()), incremental=False)

    def _begin(
        self,
        partitions: dict[tuple[TopicKey, int], FetchedFrom],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now: float,
    ) -> FetchSession | None:
        worth = is_follower, len(partitions)
        if len(self._sessions) >= self.slots and not self._evict(worth, now):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._chance.below(0x7FFFFFFE)
        session = FetchSession(
            session_id, uses_topic_ids=uses_topic_ids, is_privileged=is_follower, now=now
        )
        session.epoch = 1
        session.partitions = partitions
        self._sessions[session_id] = session
        self._evictable.add(session)
        return session

    def withdraw(self, session: FetchSession) -> None:
        """End a session that the client was not told of."""
        if not session.is_over:
            self._end(session)

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        session.is_over = True
        self._evictable.remove(session)

    def _evict(self, worth: tuple[bool, int], now: float) -> bool:
        """Make room, if a session is stale or may go and is worth less; tell whether."""
        session = self._evictable.next(worth, now - self.eviction_ms / 1000)
        if session is None:
            return False
        assert isinstance(session, FetchSession)
        self._end(session)
        self.evictions += 1
        return True
