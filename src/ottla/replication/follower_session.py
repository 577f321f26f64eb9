"""The follower's half of a fetch session (KIP-227): what the leader remembers need not be repeated.

The first request names every partition; each one after that only those that have changed, and
those that are not to be fetched any more. So what a fetch costs follows from what has changed, not
from how many partitions are followed. Whenever the two halves may no longer agree, the next request
names everything again.

Counterpart in Apache Kafka: ``FetchSessionHandler``.
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.errors import ErrorCode
from ottla.protocol.fetch_answer import FetchAnswer
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from ottla.replication.fetch_state import FetchKey, FetchState, Told

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = (1 << 31) - 1


class FollowerSession:
    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self.told: dict[FetchKey, Told] = {}
        """What the leader knows of each partition that it is asked for."""

    @property
    def is_full(self) -> bool:
        """Whether the next request must name every partition."""
        return self._epoch == INITIAL_EPOCH

    def name_all(self, request: FetchRequest, states: Iterable[FetchState], max_bytes: int) -> None:
        self.told = {state.key: state.told() for state in states}
        self._write(request, self.told, [], max_bytes)

    def name_changes(
        self,
        request: FetchRequest,
        changed: Iterable[tuple[FetchKey, FetchState | None]],
        max_bytes: int,
    ) -> None:
        """Name what the leader does not know yet; None for what is not fetched any more."""
        told = self.told
        news: dict[FetchKey, Told] = {}
        forgotten: list[FetchKey] = []
        for key, state in changed:
            if state is None:
                if told.pop(key, None) is not None:
                    forgotten.append(key)
                continue
            new = state.told()
            if told.get(key) != new:
                told[key] = news[key] = new
        self._write(request, news, forgotten, max_bytes)

    def _write(
        self,
        request: FetchRequest,
        news: dict[FetchKey, Told],
        forgotten: list[FetchKey],
        max_bytes: int,
    ) -> None:
        request.session_id = self._session_id
        request.session_epoch = self._epoch
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, index), told in news.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=told.leader_epoch,
                    fetch_offset=told.offset,
                    last_fetched_epoch=told.last_fetched_epoch,
                    log_start_offset=told.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        request.topics = list(topics.values())
        gone: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in forgotten:
            gone.setdefault(
                topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])
            ).partitions.append(index)
        request.forgotten_topics_data = list(gone.values())

    def answered(self, answer: FetchAnswer) -> bool:
        """Go on as the leader says; whether what it says of partitions can be used."""
        if answer.error_code:
            if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return False
        named = {(each.topic_id, each.partition) for each in answer.partitions}
        told = self.told.keys()
        if len(named) < len(answer.partitions) or (
            named != told if self.is_full else not named <= told
        ):
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
            return False
        if answer.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._session_id = answer.session_id
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def failed(self) -> None:
        """No answer came: what the leader has heard is unknown. The new session ends the old."""
        self._epoch = INITIAL_EPOCH
