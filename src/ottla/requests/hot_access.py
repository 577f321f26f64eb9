"""What the client of a Produce or a Fetch may do, asked of the authorizer once for many requests.

A connection remembers what its client was allowed, with the epoch of the ACLs at that time: when
any ACL changes, all of it is void. What is denied is not remembered: each refusal is told in the
authorizer's log, and costs the one that asks for it.
"""

from typing import Final

from ottla.common.authorization import (
    ANONYMOUS,
    CLUSTER_NAME,
    AclOperation,
    Principal,
    ResourceType,
)
from ottla.common.errors import (
    ApiError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
)
from ottla.protocol.produce_request import PartitionRecords, ProduceView
from ottla.protocol.produce_response import Appended
from ottla.records.batch import MAGIC, TRANSACTIONAL_BIT
from ottla.requests.context import Peer, Services
from ottla.requests.produce_outcomes import Outcomes, Refused

GRANTS_MAX: Final = 10_000
"""What a connection remembers: a client may name topics that there are not."""
_NAME_MAX: Final = 249
"""A longer name is no topic's, and is not remembered: it would take as much memory as it likes."""
_MAGIC: Final = 16
_ATTRIBUTES: Final = 22
"""Where they stand in a batch; of the attributes, the lower byte."""


class HotAccess:
    """A client, as the authorizer knows it, and its access to topics."""

    __slots__ = ("_authorizer", "_granted", "_image", "client_id", "peer_host", "principal")

    request_name = ""

    def __init__(self, services: Services, peer: Peer | None) -> None:
        self._authorizer = services.authorizer
        self._image = services.metadata
        self.client_id: str | None = None
        self.principal: Principal = ANONYMOUS if peer is None else peer.principal
        self.peer_host: str = "" if peer is None else peer.peer_host
        self._granted = {} if peer is None else peer.granted

    def _may(self, operation: AclOperation, resource_type: ResourceType, key: str | bytes) -> bool:
        """UnknownTopicId where nobody can say what is asked for."""
        epoch = self._authorizer.epoch
        granted = self._granted
        asked = (operation, resource_type, key)
        if granted.get(asked) == epoch:
            return True
        name = key if isinstance(key, str) else self._name(key)
        if name is None:
            raise UnknownTopicId
        if not self._authorizer.allows(self, operation, resource_type, name):
            return False
        if len(name) <= _NAME_MAX:
            if len(granted) >= GRANTS_MAX:
                granted.clear()
            granted[asked] = epoch
        return True

    def _name(self, topic_id: bytes) -> str | None:
        topic = self._image.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name


class ProduceAccess(HotAccess):
    __slots__ = ()

    request_name = "Produce"

    def take_denied(self, request: ProduceView, frame: memoryview) -> Outcomes | None:
        """Take out of a request what is denied; the refusals, or None if there are none."""
        topics = request.topics
        if _is_transactional(request, frame) and not self._may_write_as(request.transactional_id):
            why = TransactionalIdAuthorizationFailed()
            refused = [_refused(topic, partitions, why) for topic, partitions in topics]
            topics.clear()
            return refused
        allowed: list[tuple[str | bytes, list[PartitionRecords]]] = []
        outcomes: Outcomes = []
        for each in topics:
            refusal = self._refusal(each[0])
            if refusal is None:
                allowed.append(each)
            else:
                outcomes.append(_refused(*each, refusal))
        if not outcomes:
            return None
        topics[:] = allowed
        return outcomes

    def _refusal(self, topic: str | bytes) -> ApiError | None:
        """Why a topic may not be written to.

        One that is not known yet is refused now: it may be known when a transaction is verified.
        """
        try:
            may = self._may(AclOperation.WRITE, ResourceType.TOPIC, topic)
        except UnknownTopicId as unknown:
            return unknown
        return None if may else TopicAuthorizationFailed()

    def _may_write_as(self, transactional_id: str | None) -> bool:
        return transactional_id is not None and self._may(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )


class FetchAccess(HotAccess):
    __slots__ = ()

    request_name = "Fetch"

    def may_follow(self) -> bool:
        """Whether the client is a broker, which may fetch as a follower does."""
        return self._may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_read(self, topic: str | bytes) -> bool:
        try:
            return self._may(AclOperation.READ, ResourceType.TOPIC, topic)
        except UnknownTopicId:
            return True  # refused because nobody knows it


def _is_transactional(request: ProduceView, frame: memoryview) -> bool:
    """Whether a batch says so, whatever the request says."""
    for _, partitions in request.topics:
        for _, start, end in partitions:
            if (
                end - start > _ATTRIBUTES
                and frame[start + _ATTRIBUTES] & TRANSACTIONAL_BIT != 0
                and frame[start + _MAGIC] == MAGIC
            ):
                return True
    return False


def _refused(
    topic: str | bytes, partitions: list[PartitionRecords], why: ApiError
) -> tuple[str | bytes, list[Appended | Refused]]:
    return topic, [Refused(index, why, None) for index, _, _ in partitions]
