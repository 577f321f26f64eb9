"""A group coordinator on logs in memory and a clock that the test moves, and members who use it."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from tests.coordinator.memory_log import MemoryLog
from tests.turns import TURN, virtual_time

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise, fulfilled, run
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.configs import GROUP_RESOURCE
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.records import GroupRecord, GroupRecordFormat
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC, GroupService, OffsetsFound
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.outside import Verification
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.heartbeat import HeartbeatRequest
from ottla.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
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
from ottla.protocol.message import to_bytes

T = TypeVar("T")

PARTITIONS = 3
GROUP = "group"


class Cluster:
    """The topics of the cluster, as the test has it: the coordinator's own, and others."""

    def __init__(self) -> None:
        self.image = MetadataImage(offset=0, features=FeaturesImage(finalized={"group.version": 1}))
        self.newest_topic_offset = -1

    def partition_count(self, topic: str) -> int | None:
        return PARTITIONS if topic == GROUP_METADATA_TOPIC else None

    def put(self, name: str, partitions: int, topic_id: bytes | None = None) -> bytes:
        """Create a topic, or give it so many partitions; return its id."""
        existing = self.image.topics.by_name.get(name)
        if topic_id is None:
            known = name.encode().ljust(16, b"_")[:16]
            topic_id = known if existing is None else existing.topic_id
        state = PartitionImage((0,), (0,), 0, 0, 0, (bytes(16),))
        topic = TopicImage(name, topic_id, dict.fromkeys(range(partitions), state))
        self._replace({**self.image.topics.by_name, name: topic})
        if existing is None:
            self.newest_topic_offset = self.image.offset
        return topic_id

    def remove(self, name: str) -> None:
        others = {each: topic for each, topic in self.image.topics.by_name.items() if each != name}
        self._replace(others)

    def configure(self, group_id: str, **settings: str) -> None:
        configs = {name.replace("_", "."): value for name, value in settings.items()}
        self.image = replace(
            self.image, configs={**self.image.configs, (GROUP_RESOURCE, group_id): configs}
        )

    def _replace(self, topics: dict[str, TopicImage]) -> None:
        by_id = {topic.topic_id: topic for topic in topics.values()}
        self.image = replace(
            self.image, offset=self.image.offset + 1, topics=TopicsImage(topics, by_id)
        )


class AllOpen:
    """A writer within a transaction has one."""

    def verify(
        self,
        topic: str,
        partition: int,
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        api_version: int,
    ) -> Promise[Verification | None]:
        return fulfilled(TURN, None)


class Coordinator:
    def __init__(self, settings: GroupSettings | None = None, log: MemoryLog | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.log = log or MemoryLog()
        self.scheduler = virtual_time(7)
        self.chance = Chance(11)
        self.cluster = Cluster()
        self.service = self._start()

    def _start(self) -> GroupService:
        service = GroupService(
            settings=self.settings,
            writer=self.log,
            reader=self.log,
            scheduler=self.scheduler,
            chance=self.chance,
            topics=self.cluster,
            verifier=AllOpen(),
        )
        for partition in range(PARTITIONS):
            service.elected(partition, 0)
        return service

    def crash(self) -> None:
        """Forget everything but the log, and load it again."""
        now = self.scheduler.now
        self.scheduler = virtual_time(7)
        self.scheduler.now = now
        self.log.forget_waiting()
        self.service = self._start()
        self.turn()

    def turn(self) -> None:
        """Let what is due now happen."""
        self.scheduler.run_for(0)

    def wait(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    def records(self, group_id: str = GROUP) -> list[GroupRecord]:
        partition = self.service.partition_for(group_id)
        records = self.log.records(GROUP_METADATA_TOPIC, partition)
        decoded = [
            GroupRecordFormat().decode(record.key or b"", record.value) for record in records
        ]
        return [record for record in decoded if record is not None]

    def commit_log(self, group_id: str = GROUP) -> None:
        self.log.commit(GROUP_METADATA_TOPIC, self.service.partition_for(group_id))

    def ask(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The answer, which must come within this turn."""
        promise = run(self.scheduler.turn, coroutine)
        self.turn()
        return promise.result()

    def state(self, group_id: str = GROUP) -> str:
        self.turn()
        (described,) = self.service.describe([group_id], 5)
        return described.group_state

    def group(self, group_id: str = GROUP) -> ClassicGroup | None:
        partition = self.service.partition_for(group_id)
        group = self.service.runtime.read(partition, lambda shard: shard.groups.get(group_id))
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def commit_request(
        self,
        offset: int,
        *,
        group_id: str = GROUP,
        topic: str = "topic",
        topic_id: bytes = bytes(16),
        partition: int = 0,
        member_id: str = "",
        generation_id: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
    ) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )

    def commit_offset(
        self,
        offset: int,
        *,
        group_id: str = GROUP,
        topic: str = "topic",
        partition: int = 0,
        member_id: str = "",
        generation_id: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> Promise[OffsetCommitResponse]:
        request = self.commit_request(
            offset,
            group_id=group_id,
            topic=topic,
            partition=partition,
            member_id=member_id,
            generation_id=generation_id,
            instance_id=instance_id,
            metadata=metadata,
            retention_ms=retention_ms,
        )
        return run(self.scheduler.turn, self.service.commit_offsets(request, version))

    def committed(
        self, group_id: str = GROUP, topic: str = "topic", partition: int = 0
    ) -> int | None:
        found = self.fetch(group_id, topic, partition)
        ((_, _, [(_, offset)]),) = found
        return None if isinstance(offset, ErrorCode) else offset.offset

    def fetch(self, group_id: str, topic: str, partition: int) -> OffsetsFound:
        asked = [(topic, bytes(16), [partition])]
        return self.ask(self.service.fetch_offsets(group_id, asked, require_stable=False))


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + to_bytes(ConsumerProtocolSubscription(topics=list(topics)), 1)


class Member:
    """A client of a classic group, as far as the protocol goes."""

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
    ) -> None:
        self.coordinator = coordinator
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.protocols = protocols or {"range": subscription("topic")}
        self.protocol_type = protocol_type
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.version = version
        self.member_id = ""
        self.generation_id = -1
        self.joined: JoinGroupResponse | None = None
        self.assignment: bytes | None = None

    @property
    def service(self) -> GroupService:
        return self.coordinator.service

    def send_join(self) -> Promise[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols.items()
            ],
        )
        caller = Caller(self.version, self.name, "/127.0.0.1")
        promise = self.service.join(request, caller)
        self.coordinator.turn()
        return promise

    def join(self) -> Promise[JoinGroupResponse]:
        """Join, twice when a member id is handed out first, and remember what comes of it."""
        promise = self.send_join()
        if promise.done:
            response = _result(promise)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                promise = self.send_join()
        promise.when_done(self._joined)
        return promise

    def _joined(self, promise: Promise[JoinGroupResponse]) -> None:
        self.joined = response = _result(promise)
        if response.error_code == ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation_id = response.generation_id

    @property
    def leads(self) -> bool:
        return self.joined is not None and self.joined.leader == self.member_id

    def sync(self, assignments: dict[str, bytes] | None = None) -> Promise[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        promise = self.service.sync(request)
        promise.when_done(self._synced)
        return promise

    def _synced(self, promise: Promise[SyncGroupResponse]) -> None:
        try:
            response = promise.result()
        except ApiError:
            return
        if response.error_code == ErrorCode.NONE:
            self.assignment = response.assignment

    def heartbeat(self) -> int:
        """The error code."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        try:
            return self.coordinator.ask(self.service.heartbeat(request)).error_code
        except ApiError as error:
            return error.code

    def leave(self) -> LeaveGroupResponse:
        return leave(self.coordinator, self.group_id, (self.member_id, self.instance_id))

    def commit(self, offset: int, partition: int = 0) -> Promise[OffsetCommitResponse]:
        return self.coordinator.commit_offset(
            offset,
            group_id=self.group_id,
            partition=partition,
            member_id=self.member_id,
            generation_id=self.generation_id,
            instance_id=self.instance_id,
        )


def _result(promise: Promise[JoinGroupResponse]) -> JoinGroupResponse:
    try:
        return promise.result()
    except ApiError as error:
        return JoinGroupResponse(error_code=error.code)


def leave(
    coordinator: Coordinator, group_id: str, *members: tuple[str, str | None]
) -> LeaveGroupResponse:
    request = LeaveGroupRequest(
        group_id=group_id,
        members=[
            MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        ],
    )
    return coordinator.ask(coordinator.service.leave(request))


def settle(coordinator: Coordinator, *members: Member) -> None:
    """Have all ``members`` join and the leader assign each its own name."""
    for member in members:
        member.join()
    coordinator.scheduler.run_until(lambda: all(member.joined for member in members), 60)
    assign(coordinator, *members)


def assign(coordinator: Coordinator, *members: Member) -> None:
    """The leader assigns each member its own name."""
    assignments = {member.member_id: member.name.encode() for member in members}
    for member in members:
        member.sync(assignments if member.leads else None)
    coordinator.turn()
