"""Members of groups of both kinds: how they come, stay, learn what they have, and go."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from ottla.common.errors import ErrorCode
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.generated.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from ottla.protocol.generated.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.heartbeat import HeartbeatRequest
from ottla.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    MemberIdentity,
)
from ottla.protocol.generated.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.simulation.cluster_client import GROUP, ClusterClient, Place
from ottla.simulation.history import Assign, History

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 8_000
PROTOCOL: Final = "simulated"
_EMBEDDED_VERSION: Final = 1


class Member(ABC):
    """``beat`` is to be called every second or so; what it returns is true while all is as it was.

    After it was not, ``assignment`` is what the member has now.
    """

    def __init__(
        self, client: ClusterClient, history: History, group: str, places: Sequence[Place]
    ) -> None:
        self._client = client
        self._history = history
        self.group = group
        self._places = places
        self.topic = places[0][0]
        self.member_id = ""
        self.epoch = -1
        self.assignment: list[Place] = []

    @abstractmethod
    async def beat(self) -> bool: ...

    @abstractmethod
    async def leave(self) -> None: ...

    def _assigned(self, epoch: int, places: list[Place]) -> None:
        self.epoch = epoch
        self.assignment = sorted(places)
        self._history.add(
            Assign(
                process=self._client.name,
                group=self.group,
                member=self.member_id,
                epoch=epoch,
                partitions=list(self.assignment),
            )
        )

    async def _trouble(self) -> None:
        self._client.forget_coordinator(GROUP, self.group)
        await self._client.back_off()


class ClassicMember(Member):
    """Of the classic protocol: the group's leader assigns, a member that rejoins gives all back."""

    async def beat(self) -> bool:
        if self.epoch < 0:
            await self._join()
            return False
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.epoch, member_id=self.member_id
        )
        try:
            answer = await self._client.ask_coordinator(GROUP, self.group, request)
        except OSError:
            await self._trouble()
            return True
        match answer.error_code:
            case ErrorCode.NONE:
                return True
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._give_back()
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._give_back()
                self.member_id = ""
            case _:
                await self._trouble()
                return True
        return False

    def _give_back(self) -> None:
        self.assignment = []
        self.epoch = -1

    async def _join(self) -> None:
        subscription = ConsumerProtocolSubscription(topics=[self.topic])
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=_embed(subscription))],
        )
        try:
            answer = await self._client.ask_coordinator(GROUP, self.group, request)
        except OSError:
            await self._trouble()
            return
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            await self._trouble()
            return
        self.member_id = answer.member_id
        await self._sync(answer)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
        )
        if joined.leader == self.member_id:
            request.assignments = self._share([each.member_id for each in joined.members])
        try:
            answer = await self._client.ask_coordinator(GROUP, self.group, request)
        except OSError:
            await self._trouble()
            return
        if answer.error_code == ErrorCode.NONE:
            parsed = from_bytes(
                ConsumerProtocolAssignment, answer.assignment[2:], _EMBEDDED_VERSION
            )
            topics = parsed.assigned_partitions
            places = [(each.topic, index) for each in topics for index in each.partitions]
            self._assigned(joined.generation_id, places)
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            await self._trouble()

    def _share(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        shares: list[list[int]] = [[] for _ in members]
        for number, (_, partition) in enumerate(self._places):
            shares[number % len(members)].append(partition)
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=_embed(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[AssignedTopic(topic=self.topic, partitions=share)]
                    )
                ),
            )
            for member, share in zip(members, shares, strict=True)
        ]

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        self._give_back()
        self.member_id = ""
        try:
            await self._client.ask_coordinator(GROUP, self.group, request)
        except OSError:
            await self._trouble()


def _embed(message: Message) -> bytes:
    """A message inside a group's own bytes: its version, then itself."""
    return _EMBEDDED_VERSION.to_bytes(2, "big") + to_bytes(message, _EMBEDDED_VERSION)


class ConsumerMember(Member):
    """Of the consumer protocol (KIP-848): the coordinator assigns, partition by partition."""

    def __init__(
        self, client: ClusterClient, history: History, group: str, places: Sequence[Place]
    ) -> None:
        super().__init__(client, history, group, places)
        self._lives = 0
        self._rejoin()

    def _rejoin(self) -> None:
        self._lives += 1
        self.member_id = f"{self._client.name}/{self._lives}"
        self.epoch = 0
        self.assignment = []

    async def beat(self) -> bool:
        answer = await self._heartbeat(self.epoch)
        if answer is None:
            return True
        if answer.error_code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ):
            self._rejoin()
            return False
        if answer.error_code != ErrorCode.NONE:
            await self._trouble()
            return True
        places = self.assignment
        if answer.assignment is not None:
            names = {self._client.topic_ids[self.topic]: self.topic}
            topics = answer.assignment.topic_partitions
            places = [(names[each.topic_id], index) for each in topics for index in each.partitions]
        is_same = sorted(places) == self.assignment
        if not is_same or answer.member_epoch != self.epoch:
            self._assigned(answer.member_epoch, places)
        return is_same

    async def _heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatResponse | None:
        owned = [partition for _, partition in self.assignment]
        topic_id = self._client.topic_ids.get(self.topic)
        try:
            if topic_id is None:
                await self._client.refresh(self.topic)
                topic_id = self._client.topic_ids[self.topic]
            topics = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=owned)
            ]
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=[self.topic],
                topic_partitions=topics if owned else [],
            )
            return await self._client.ask_coordinator(GROUP, self.group, request)
        except (OSError, KeyError):
            await self._trouble()
            return None

    async def leave(self) -> None:
        await self._heartbeat(-1)
        self._rejoin()
