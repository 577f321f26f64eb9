"""A member of a consumer group, by the protocol of KIP-848: the coordinator assigns partitions.

The holder of a :class:`Membership` calls ``heartbeat`` as often as ``due`` says. An assignment is
taken in two steps: what is to be given up is committed and let go, and then :meth:`take` tells the
coordinator what is held. Nothing happens behind the caller's back; one that does not call for
longer than the session lasts is no member any more, and joins anew with the next heartbeat.

Needs a broker that serves ConsumerGroupHeartbeat: ours, or Apache Kafka from 4.0 on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.cluster import Cluster
from ottla.client.errors import refusal
from ottla.client.groups import alter_group_offsets, coordinator_of
from ottla.client.leaders import by_topic
from ottla.client.system_time import Deadline
from ottla.common.chance import Chance
from ottla.common.errors import ApiError, FencedMemberEpoch, UnknownMemberId
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

REBALANCE_TIMEOUT_MS: Final = 60_000
EMPTY_HANDED_MS: Final = 500
"""A member without partitions asks so often: the first assignment may take a moment."""
_JOINING: Final = 0
_LEAVING: Final = -1


class Membership:
    """See the module. Not safe for several threads."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        chance: Chance | None = None,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topics = list(topics)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._epoch = _JOINING
        self._held: list[TopicPartition] = []
        self._tells = True
        self._is_named = True
        """Whether all topics of the last assignment were known by their names."""
        self._due = Deadline(cluster.clock, 0)
        self.member_id = uuid_text(random_uuid(chance or Chance()))
        self.is_lost = False
        """Whether the coordinator had forgotten us at the last heartbeat: nothing held is ours."""

    @property
    def due(self) -> Deadline:
        """When the next heartbeat is to be sent."""
        return self._due

    def heartbeat(self) -> list[TopicPartition] | None:
        """Say that we live. The partitions that are to be held, when the coordinator names them."""
        self.is_lost = False
        try:
            answer = self._ask(self._request())
        except (UnknownMemberId, FencedMemberEpoch):
            if self._epoch == _JOINING:
                raise
            self.is_lost = True
            self._is_named = True
            self._epoch = _JOINING
            self.take([])
            return []
        self._tells = False
        self._epoch = answer.member_epoch
        wanted = None if answer.assignment is None else self._named(answer.assignment)
        interval_ms = answer.heartbeat_interval_ms
        if not self._is_named or (not self._held and not wanted):
            interval_ms = min(interval_ms, EMPTY_HANDED_MS)
        self._due = Deadline(self._cluster.clock, interval_ms)
        return wanted

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """These are held now, and no others; the coordinator hears of it at once."""
        self._held = sorted(partitions)
        self._tells = True
        self._due = Deadline(self._cluster.clock, 0 if self._is_named else EMPTY_HANDED_MS)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Where each partition goes on; ApiError when we are no member any more."""
        if offsets and self._epoch > _JOINING:
            alter_group_offsets(
                self._cluster,
                self._group_id,
                offsets,
                member_id=self.member_id,
                member_epoch=self._epoch,
            )

    def leave(self) -> None:
        """Give all back; the others need not wait for the session to end."""
        if self._epoch > _JOINING:
            self._ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=self.member_id, member_epoch=_LEAVING
                )
            )
            self._epoch = _JOINING

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        """All of us when we join; later only what the coordinator cannot know.

        A member that tells all again is told the whole assignment again.
        """
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=self._epoch
        )
        if self._epoch == _JOINING or not self._is_named:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.subscribed_topic_names = self._topics
            request.topic_partitions = []
        if self._epoch != _JOINING and (self._tells or not self._is_named):
            topics = self._cluster.metadata.topics
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=topics[name].topic_id, partitions=indexes
                )
                for name, indexes in by_topic(self._held).items()
                if name in topics  # else it was just deleted
            ]
        return request

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        def failed(answer: ConsumerGroupHeartbeatResponse) -> ApiError | None:
            code = answer.error_code
            return refusal(code, answer.error_message) if code else None

        return self._cluster.ask_again(
            request,
            ConsumerGroupHeartbeatResponse,
            node_id=lambda: coordinator_of(self._cluster, self._group_id),
            failed=failed,
        )

    def _named(self, assignment: Assignment) -> list[TopicPartition]:
        """Partitions by the names of their topics.

        One that was just deleted is left out, and one that the broker which was asked has not heard
        of yet: the assignment is asked for again then.
        """
        known = self._cluster.refresh(self._topics).topics
        names = {known[name].topic_id: name for name in self._topics if name in known}
        self._is_named = all(topic.topic_id in names for topic in assignment.topic_partitions)
        return sorted(
            TopicPartition(names[topic.topic_id], index)
            for topic in assignment.topic_partitions
            if topic.topic_id in names
            for index in topic.partitions
        )
