"""Committed offsets of a group: a member fetches them when it begins, commits as it goes on."""

from collections.abc import Sequence

from ottla.common.errors import RETRIABLE, ErrorCode
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.simulation.cluster_client import GROUP, ClusterClient, Place
from ottla.simulation.history import CommitOffset, FetchOffset, History, Outcome
from ottla.simulation.workloads.membership import ClassicMember, Member


async def fetch_offset(
    client: ClusterClient, history: History, group: str, place: Place, *, is_final: bool = False
) -> int | None:
    """The stable committed offset, -1 when there is none; None when the attempt was in vain."""
    topic, partition = place
    if topic not in client.topic_ids:
        try:
            await client.refresh(topic)
        except OSError:
            return None
    wanted = OffsetFetchRequestTopics(
        name=topic, topic_id=client.topic_ids[topic], partition_indexes=[partition]
    )
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True
    )
    operation = history.begin(
        FetchOffset(
            process=client.name, group=group, topic=topic, partition=partition, is_final=is_final
        )
    )
    code: int = ErrorCode.NETWORK_EXCEPTION
    try:
        answer = await client.ask_coordinator(GROUP, group, request)
        code = answer.groups[0].error_code
        if code == ErrorCode.NONE:
            found = answer.groups[0].topics[0].partitions[0]
            code = found.error_code
            operation.offset = found.committed_offset
    except OSError:
        pass
    if code == ErrorCode.NONE:
        history.end(operation)
        return operation.offset
    history.end(operation, Outcome.FAILED)
    client.forget_coordinator(GROUP, group)
    await client.back_off()
    return None


async def keep_group(
    client: ClusterClient, history: History, group: str, places: Sequence[Place]
) -> None:
    """Let a group have offsets before it has members: it stays, and its epochs only grow."""
    nobody = ClassicMember(client, history, group, places)
    for place in places:
        while place[0] not in client.topic_ids:  # the broker that was asked had not heard of it
            await client.renew(place)
        while await commit_offset(client, history, nobody, place, 0) is not Outcome.OK:
            client.forget_coordinator(GROUP, group)
            await client.back_off()


async def commit_offset(
    client: ClusterClient, history: History, member: Member, place: Place, offset: int
) -> Outcome:
    """Commit once: without certainty no other commit is made with the same identity."""
    topic, partition = place
    operation = history.begin(
        CommitOffset(
            process=client.name,
            group=member.group,
            member=member.member_id,
            epoch=member.epoch,
            topic=topic,
            partition=partition,
            offset=offset,
        )
    )
    committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic, topic_id=client.topic_ids[topic], partitions=[committed]
            )
        ],
    )
    outcome = Outcome.UNKNOWN
    try:
        answer = await client.ask_coordinator(GROUP, member.group, request)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            outcome = Outcome.OK
        elif code not in RETRIABLE:
            outcome = Outcome.FAILED
    except OSError:
        pass
    history.end(operation, outcome)
    return outcome
