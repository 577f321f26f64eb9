"""The broker of these tests with a group coordinator on its real logs, and members who ask it."""

from types import ModuleType
from typing import TypeVar

from tests.handlers.broker import Broker, Peer

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC, GroupService
from ottla.coordinator.group.settings import GroupSettings
from ottla.handlers import join_group, offset_commit, sync_group
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.protocol.message import Message, to_bytes
from ottla.requests.contract import Contract
from ottla.server.internal_topics import InternalTopics

R = TypeVar("R", bound=Message)

PARTITIONS = 3
SUBSCRIPTION = bytes(2) + to_bytes(ConsumerProtocolSubscription(topics=["t"]), 0)


class GroupBroker(Broker):
    """Has ``__consumer_offsets``, a topic ``t`` of two partitions, and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.internal = InternalTopics(self.replicas, self.metadata, self.scheduler, lambda: True)
        self.groups = GroupService(
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            writer=self.internal,
            reader=self.internal,
            scheduler=self.scheduler,
            chance=Chance(9),
            topics=self.internal,
            verifier=self.internal,
        )
        self.services.groups = self.groups
        self.add_topic(GROUP_METADATA_TOPIC, PARTITIONS)
        self.topic_id = self.add_topic("t", 2)
        for partition in range(PARTITIONS):
            self.groups.elected(partition, 0)

    def ask(
        self,
        handler: ModuleType | Contract,
        request: Message,
        version: int,
        response: type[R],
        peer: Peer | None = None,
    ) -> R:
        promise = self.start(handler, request, version, peer)
        self.scheduler.run_for(1)
        return self.answer(handler, request, promise, version, response)

    def join_request(self, group_id: str = "g", member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00")
            ],
        )

    def join(self, version: int = 9, group_id: str = "g") -> JoinGroupResponse:
        """Join as a new member, which is let in at once."""
        request = self.join_request(group_id)
        if version == 0:
            request.rebalance_timeout_ms = -1
        response = self.ask(join_group, request, version, JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = self.ask(join_group, request, version, JoinGroupResponse)
        return response

    def stable(self, group_id: str = "g") -> JoinGroupResponse:
        """A group whose only member has its assignment."""
        joined = self.join(group_id=group_id)
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
            ],
        )
        self.ask(sync_group, request, 4, SyncGroupResponse)
        return joined

    def commit(self, offset: int, group_id: str = "g", partition: int = 0) -> None:
        """Commit as somebody who is no group."""
        request = self.commit_request(offset, group_id, partition)
        response = self.ask(offset_commit, request, 9, OffsetCommitResponse)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    def commit_request(
        self, offset: int, group_id: str = "g", partition: int = 0
    ) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
