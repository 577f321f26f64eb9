"""A member of a consumer group (KIP-848), as far as the protocol goes."""

from tests.coordinator.coordinator import GROUP, Coordinator

from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import run
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.settings import Bounded, GroupSettings
from ottla.protocol.generated.consumer_group_describe import DescribedGroup
from ottla.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

AT_ONCE = GroupSettings(consumer_assignment_interval_ms=Bounded(0, 0, 15_000))
"""A target assignment is made whenever the group changes."""

Owned = dict[bytes, frozenset[int]]


class Consumer:
    """It has what it was given, and gives up what it is no longer given, at its next heartbeat."""

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        group_id: str = GROUP,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        self.coordinator = coordinator
        self.member_id = name
        self.topics = ["topic"] if topics is None and regex is None else topics
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.group_id = group_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.epoch = 0
        self.owned: Owned = {}
        self.given: Owned = {}
        """What the coordinator said last."""
        self.is_in_doubt = False
        """It had no answer: it says everything next time, and so hears everything."""

    def request(
        self, epoch: int | None = None, *, full: bool = False
    ) -> ConsumerGroupHeartbeatRequest:
        epoch = self.epoch if epoch is None else epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=topic_id, partitions=sorted(partitions)
                )
                for topic_id, partitions in self.owned.items()
            ],
        )
        if epoch == 0 or full:
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.subscribed_topic_names = self.topics
            request.subscribed_topic_regex = self.regex
            request.server_assignor = self.assignor
        return request

    def send(
        self, request: ConsumerGroupHeartbeatRequest, version: int = 1
    ) -> ConsumerGroupHeartbeatResponse:
        caller = Caller(version, "client", "/127.0.0.1")
        service = self.coordinator.service
        return self.coordinator.ask(service.consumer_heartbeat(request, caller))

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned, self.given = 0, {}, {}
        return self.beat()

    def beat(self, *, full: bool = False) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat; what is given is taken, and what is taken away is given up."""
        response = self.send(self.request(full=full or self.is_in_doubt))
        self.is_in_doubt = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.given = partitions_of(response.assignment)
        self.owned = self.given
        return response

    def beat_code(self) -> ErrorCode:
        try:
            self.beat()
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        response = self.send(self.request(epoch))
        self.epoch, self.owned, self.given = epoch, {}, {}
        return response

    def commit(self, offset: int, partition: int = 0, epoch: int | None = None) -> ErrorCode:
        request = self.coordinator.commit_request(
            offset,
            group_id=self.group_id,
            partition=partition,
            member_id=self.member_id,
            generation_id=self.epoch if epoch is None else epoch,
            topic_id=self.coordinator.cluster.image.topics.by_name["topic"].topic_id,
        )
        promise = run(
            self.coordinator.scheduler.turn, self.coordinator.service.commit_offsets(request, 9)
        )
        self.coordinator.turn()
        try:
            response = promise.result()
        except ApiError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    @property
    def count(self) -> int:
        return sum(len(partitions) for partitions in self.owned.values())


def partitions_of(assignment: Assignment) -> Owned:
    return {each.topic_id: frozenset(each.partitions) for each in assignment.topic_partitions}


def group_of(coordinator: Coordinator, group_id: str = GROUP) -> ConsumerGroup:
    partition = coordinator.service.partition_for(group_id)
    group = coordinator.service.runtime.read(partition, lambda shard: shard.groups.get(group_id))
    assert isinstance(group, ConsumerGroup)
    return group


def described(coordinator: Coordinator, group_id: str = GROUP) -> DescribedGroup:
    coordinator.turn()
    (group,) = coordinator.service.describe_consumers([group_id])
    return group


def settle(coordinator: Coordinator, *members: Consumer, rounds: int = 8) -> None:
    """Let everybody heartbeat until nothing changes any more."""
    for _ in range(rounds):
        before = [(member.epoch, member.given) for member in members]
        for member in members:
            member.beat()
        if before == [(member.epoch, member.given) for member in members]:
            return
    raise AssertionError("the group does not come to rest")
