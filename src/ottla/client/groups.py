"""Groups: which there are, who is in them, how far they have read; and changing that.

Everything is asked of a group's coordinator, which is looked for anew when it has moved.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import SomeRefused, refusal
from ottla.client.leaders import by_topic
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    GroupIdNotFound,
    ProtocolViolation,
    UnsupportedVersion,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from ottla.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.generated.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.generated.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.protocol.message import Message, from_buffer

M = TypeVar("M", bound=Message)

_GROUP: Final = 0
"""The kind of key that FindCoordinator is asked for."""
_SEVERAL_KEYS_FROM: Final = 4
_STATES_FROM: Final = 4
_TYPES_FROM: Final = 5
_SEVERAL_GROUPS_FROM: Final = 8
EMPTY_STATES: Final = frozenset({"Empty", "Dead"})


class GroupListing(NamedTuple):
    group_id: str
    group_type: str
    state: str
    protocol_type: str


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    """None in a classic group, whose members are all of one generation."""
    assigned: list[TopicPartition]


class GroupDescription(NamedTuple):
    group_id: str
    group_type: str
    state: str
    coordinator: int
    assignor: str
    epoch: int | None
    members: list[GroupMember]


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """The broker that coordinates a group."""

    def request(version: int) -> FindCoordinatorRequest:
        if version < _SEVERAL_KEYS_FROM:
            return FindCoordinatorRequest(key=group_id, key_type=_GROUP)
        return FindCoordinatorRequest(coordinator_keys=[group_id], key_type=_GROUP)

    def failed(response: FindCoordinatorResponse) -> ApiError | None:
        code = response.coordinators[0].error_code if response.coordinators else response.error_code
        return refusal(code) if code else None

    response = cluster.ask_again(request, FindCoordinatorResponse, failed=failed)
    node_id = response.coordinators[0].node_id if response.coordinators else response.node_id
    if node_id not in cluster.metadata.brokers:
        cluster.refresh()
    return node_id


def list_groups(
    cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    """All groups of all brokers, in one of ``states`` and of one of ``types``."""
    states, types = list(states), list(types)

    def request(version: int) -> ListGroupsRequest:
        if (states and version < _STATES_FROM) or (types and version < _TYPES_FROM):
            raise UnsupportedVersion("the broker cannot filter groups by state or type")
        return ListGroupsRequest(states_filter=states, types_filter=types)

    found = []
    for node_id in sorted(cluster.refresh().brokers):
        response = cluster.ask_again(
            request,
            ListGroupsResponse,
            node_id=node_id,
            failed=lambda answer: refusal(answer.error_code) if answer.error_code else None,
        )
        found += [
            GroupListing(each.group_id, each.group_type, each.group_state, each.protocol_type)
            for each in response.groups
        ]
    return sorted(found)


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """A consumer group, or a classic one."""
    try:
        return _describe_consumer(cluster, group_id)
    except (GroupIdNotFound, UnsupportedVersion):
        return _describe_classic(cluster, group_id)


def _ask(cluster: Cluster, group_id: str, request: Message, answer: type[M]) -> M:
    """The coordinator's answer for one group."""

    def failed(response: M) -> ApiError | None:
        (group,) = getattr(response, "groups", None) or getattr(response, "results", [])
        message: str | None = getattr(group, "error_message", None)
        return refusal(group.error_code, message) if group.error_code else None

    return cluster.ask_again(
        request, answer, node_id=lambda: coordinator_of(cluster, group_id), failed=failed
    )


def _describe_consumer(cluster: Cluster, group_id: str) -> GroupDescription:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    response = _ask(cluster, group_id, request, ConsumerGroupDescribeResponse)
    (group,) = response.groups
    return GroupDescription(
        group_id,
        "consumer",
        group.group_state,
        coordinator_of(cluster, group_id),
        group.assignor_name,
        group.group_epoch,
        [_consumer_member(member) for member in group.members],
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        _partitions(member.assignment),
    )


def _partitions(assignment: Assignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


def _describe_classic(cluster: Cluster, group_id: str) -> GroupDescription:
    request = DescribeGroupsRequest(groups=[group_id])
    response = _ask(cluster, group_id, request, DescribeGroupsResponse)
    (group,) = response.groups
    if group.group_state == "Dead":
        raise GroupIdNotFound(f"Group {group_id} not found.")
    return GroupDescription(
        group_id,
        "classic",
        group.group_state,
        coordinator_of(cluster, group_id),
        group.protocol_data,
        None,
        [_classic_member(member) for member in group.members],
    )


def _classic_member(member: DescribedGroupMember) -> GroupMember:
    assigned: list[TopicPartition] = []
    data = member.member_assignment
    if len(data) > 2:
        try:
            # All versions begin as version 0 does, after their number.
            assignment, _ = from_buffer(ConsumerProtocolAssignment, data, 2, 0)
        except ProtocolViolation:
            assignment = ConsumerProtocolAssignment()  # of a protocol that we do not know
        assigned = [
            TopicPartition(topic.topic, index)
            for topic in assignment.assigned_partitions
            for index in topic.partitions
        ]
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        None,
        sorted(assigned),
    )


def group_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """Every offset that the group has committed, of topics that still exist."""

    def request(version: int) -> OffsetFetchRequest:
        if version < _SEVERAL_GROUPS_FROM:
            return OffsetFetchRequest(group_id=group_id, topics=None, require_stable=False)
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        return OffsetFetchRequest(groups=[group])

    response = cluster.ask_again(
        request,
        OffsetFetchResponse,
        node_id=lambda: coordinator_of(cluster, group_id),
        failed=lambda answer: refusal(code) if (code := _fetch_code(answer)) else None,
    )
    names = {topic.topic_id: topic.name for topic in cluster.refresh(None).topics.values()}
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in response.groups[0].topics if response.groups else response.topics:
        name = topic.name or names.get(getattr(topic, "topic_id", b""), "")
        for each in topic.partitions:
            if name and each.error_code == ErrorCode.NONE and each.committed_offset >= 0:
                found[TopicPartition(name, each.partition_index)] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(found.items()))


def _fetch_code(response: OffsetFetchResponse) -> int:
    groups: list[OffsetFetchResponseGroup] = response.groups
    return groups[0].error_code if groups else response.error_code


def alter_group_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    metadata: str = "",
    member_id: str = "",
    member_epoch: int = -1,
) -> None:
    """Commit offsets as a member of a group, or for a group that has none."""
    known = cluster.refresh(sorted({partition.topic for partition in offsets})).topics
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=member_epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=known[topic].topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(topic, index)],
                        committed_metadata=metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )
    response = cluster.ask_again(
        request,
        OffsetCommitResponse,
        node_id=lambda: coordinator_of(cluster, group_id),
        failed=lambda answer: refusal(code) if (code := _commit_code(answer)) else None,
    )
    names = {topic.topic_id: topic.name for topic in known.values()}
    refused = {
        TopicPartition(topic.name or names[topic.topic_id], each.partition_index): refusal(
            each.error_code
        )
        for topic in response.topics
        for each in topic.partitions
        if each.error_code
    }
    if refused:
        raise SomeRefused(refused, {})


def _commit_code(response: OffsetCommitResponse) -> int:
    """Why nothing at all was committed, when one reason stands with every partition."""
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    return codes.pop() if len(codes) == 1 else ErrorCode.NONE


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> None:
    refused: dict[str, ApiError] = {}
    done: dict[str, None] = {}
    for group_id in dict.fromkeys(group_ids):
        try:
            request = DeleteGroupsRequest(groups_names=[group_id])
            _ask(cluster, group_id, request, DeleteGroupsResponse)
        except ApiError as error:
            refused[group_id] = error
        else:
            done[group_id] = None
    if refused:
        raise SomeRefused(refused, done)
