"""Committed offsets: who may commit, what is found, what is deleted and when they expire."""

import pytest
from tests.coordinator.coordinator import (
    GROUP,
    Coordinator,
    Member,
    settle,
    subscription,
)

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    GroupIdNotFound,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinator,
    NotEnoughReplicas,
)
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.records import (
    GroupRecordFormat,
    OffsetAndMetadata,
    offset_record,
)
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.group.settings import GroupSettings
from ottla.protocol.generated.offset_commit import OffsetCommitResponse
from ottla.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.records.builder import BatchBuilder
from ottla.records.control import transaction_marker_batch

DAY = 24 * 60 * 60


def code_of(promise: Promise[OffsetCommitResponse]) -> int:
    try:
        return promise.result().topics[0].partitions[0].error_code
    except ApiError as error:
        return error.code


def commit(coordinator: Coordinator, offset: int, **where: object) -> None:
    promise = coordinator.commit_offset(offset, **where)  # type: ignore[arg-type]
    coordinator.turn()
    assert code_of(promise) == ErrorCode.NONE


def delete(coordinator: Coordinator, *partitions: int, topic: str = "topic") -> list[int]:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions],
            )
        ],
    )
    response = coordinator.ask(coordinator.service.delete_offsets(request))
    return [partition.error_code for partition in response.topics[0].partitions]


def test_a_consumer_that_assigns_itself_may_commit_without_being_a_group(
    coordinator: Coordinator,
) -> None:
    commit(coordinator, 42)
    assert coordinator.committed() == 42
    assert coordinator.state() == "Empty"
    (listed,) = coordinator.service.list_groups()
    assert (listed.group_id, listed.protocol_type) == (GROUP, "")


def test_offsets_survive_a_restart(coordinator: Coordinator) -> None:
    commit(coordinator, 42, metadata="note")
    commit(coordinator, 7, partition=1)
    coordinator.crash()
    ((_, _, [(_, found)]),) = coordinator.fetch(GROUP, "topic", 0)
    assert isinstance(found, OffsetAndMetadata)
    assert (found.offset, found.metadata, found.leader_epoch) == (42, "note", -1)
    assert coordinator.committed(partition=1) == 7
    assert coordinator.committed(partition=2) is None


def test_a_member_commits_for_its_generation(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    assert code_of_turn(coordinator, member.commit(5)) == ErrorCode.NONE
    member.generation_id = 9
    assert code_of(member.commit(6)) == ErrorCode.ILLEGAL_GENERATION
    member.generation_id, member.member_id = 1, "stranger"
    assert code_of(member.commit(6)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.committed() == 5


def code_of_turn(coordinator: Coordinator, promise: Promise[OffsetCommitResponse]) -> int:
    coordinator.turn()
    return code_of(promise)


def test_nobody_else_commits_while_a_group_has_members(coordinator: Coordinator) -> None:
    settle(coordinator, Member(coordinator, "a"))
    assert code_of(coordinator.commit_offset(1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_while_the_leader_assigns_a_member_is_told_to_wait_with_its_commit(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a")
    member.join()
    coordinator.wait(5)
    assert code_of(member.commit(1)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_of_the_old_generation_may_commit_while_others_join(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    Member(coordinator, "b").join()
    assert code_of_turn(coordinator, member.commit(8)) == ErrorCode.NONE


def test_a_generation_of_a_group_that_is_not_there_is_refused(coordinator: Coordinator) -> None:
    new = coordinator.commit_offset(1, generation_id=3, member_id="m", version=9)
    old = coordinator.commit_offset(1, generation_id=3, member_id="m", version=8)
    assert code_of(new) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(old) == ErrorCode.ILLEGAL_GENERATION


def test_metadata_that_is_too_long_refuses_its_partition_alone(coordinator: Coordinator) -> None:
    promise = coordinator.commit_offset(1, metadata="x" * 4097)
    assert code_of(promise) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    coordinator.turn()
    assert coordinator.group() is None
    assert code_of_turn(coordinator, coordinator.commit_offset(1, metadata=None)) == 0


def test_an_offset_is_found_only_when_it_is_committed_to_the_log(
    coordinator: Coordinator,
) -> None:
    commit(coordinator, 1)
    coordinator.log.hold = True
    waiting = coordinator.commit_offset(2)
    coordinator.turn()
    assert not waiting.done
    assert coordinator.committed() == 1
    stable = run(
        coordinator.scheduler.turn,
        coordinator.service.fetch_offsets(GROUP, [("topic", bytes(16), [0])], require_stable=True),
    )
    assert not stable.done, "a request for stable offsets waits for the newest"
    coordinator.commit_log()
    assert coordinator.committed() == 2
    ((_, _, [(_, found)]),) = stable.result()
    assert isinstance(found, OffsetAndMetadata)
    assert found.offset == 2


def test_a_commit_that_cannot_be_written_changes_nothing(coordinator: Coordinator) -> None:
    commit(coordinator, 1)
    coordinator.log.refuse = NotEnoughReplicas()
    refused = coordinator.commit_offset(2)
    stable = run(
        coordinator.scheduler.turn,
        coordinator.service.fetch_offsets(GROUP, [("topic", bytes(16), [0])], require_stable=True),
    )
    coordinator.turn()
    assert code_of(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(NotCoordinator):
        stable.result()
    assert coordinator.committed() == 1


def test_offsets_of_a_topic_that_was_made_anew_are_not_those_of_the_old_one(
    coordinator: Coordinator,
) -> None:
    old, new = b"o" * 16, b"n" * 16
    committed = OffsetAndMetadata(5, -1, "", 0, topic_id=old)
    partition = coordinator.service.partition_for(GROUP)
    builder = BatchBuilder()
    builder.append(0, *GroupRecordFormat().encode(offset_record(GROUP, "topic", 0, committed)))
    coordinator.log.append(GROUP_METADATA_TOPIC, partition, bytes(builder.build()))
    coordinator.crash()
    for asked, expected in ((old, 5), (bytes(16), 5), (new, None)):
        ((_, _, [(_, found)]),) = coordinator.ask(
            coordinator.service.fetch_offsets(GROUP, [("topic", asked, [0])], require_stable=False)
        )
        assert (found.offset if isinstance(found, OffsetAndMetadata) else None) == expected


def test_all_offsets_of_a_group_are_found_without_naming_them(coordinator: Coordinator) -> None:
    for topic, partition in (("b", 1), ("a", 0), ("b", 0)):
        commit(coordinator, 10, topic=topic, partition=partition)
    found = coordinator.ask(coordinator.service.fetch_offsets(GROUP, None, require_stable=False))
    assert [(topic, [index for index, _ in offsets]) for topic, _, offsets in found] == [
        ("a", [0]),
        ("b", [0, 1]),
    ]
    nothing = coordinator.ask(
        coordinator.service.fetch_offsets("nowhere", None, require_stable=True)
    )
    assert nothing == []


def test_offsets_are_deleted_one_by_one_and_stay_deleted(coordinator: Coordinator) -> None:
    commit(coordinator, 1)
    commit(coordinator, 2, partition=1)
    assert delete(coordinator, 0, 5) == [0, 0]
    assert [record.value for record in coordinator.records()][-1] is None
    coordinator.crash()
    assert coordinator.committed() is None
    assert coordinator.committed(partition=1) == 2


def test_offsets_of_a_topic_that_the_group_reads_are_not_deleted(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a", protocols={"range": subscription("topic")})
    commit(coordinator, 3, topic="former")
    settle(coordinator, member)
    member.commit(1)
    coordinator.turn()
    assert delete(coordinator, 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert delete(coordinator, 0, topic="former") == [ErrorCode.NONE]
    assert coordinator.committed(topic="former") is None


def test_offsets_of_a_group_that_are_no_consumers_stay_while_it_has_members(
    coordinator: Coordinator,
) -> None:
    settle(coordinator, Member(coordinator, "a", protocol_type="connect"))
    with pytest.raises(NonEmptyGroup):
        delete(coordinator, 0)


def test_offsets_cannot_be_deleted_of_no_group(coordinator: Coordinator) -> None:
    with pytest.raises(GroupIdNotFound):
        delete(coordinator, 0)
    with pytest.raises(InvalidGroupId):
        coordinator.ask(coordinator.service.delete_offsets(OffsetDeleteRequest(group_id="")))


def test_offsets_in_deleted_topics_go(coordinator: Coordinator) -> None:
    commit(coordinator, 1)
    commit(coordinator, 2, partition=1)
    commit(coordinator, 3, topic="kept")
    commit(coordinator, 4, group_id="other")
    coordinator.service.partitions_deleted([TopicPartition("topic", 0), TopicPartition("topic", 1)])
    coordinator.turn()
    coordinator.crash()
    assert coordinator.committed() is None
    assert coordinator.committed(partition=1) is None
    assert coordinator.committed(topic="kept") == 3
    assert coordinator.committed(group_id="other") is None


def test_offsets_of_a_simple_consumer_expire_a_week_after_their_commit(
    coordinator: Coordinator,
) -> None:
    commit(coordinator, 1)
    coordinator.wait(4 * DAY)
    commit(coordinator, 2, partition=1)
    coordinator.wait(4 * DAY)
    assert coordinator.committed() is None
    assert coordinator.committed(partition=1) == 2
    coordinator.wait(4 * DAY)
    assert coordinator.group() is None, "a group without offsets goes too"
    coordinator.crash()
    assert coordinator.state() == "Dead"


def test_offsets_of_a_group_are_counted_from_when_it_became_empty(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a", session_timeout_ms=1_800_000)
    settle(coordinator, member)
    member.commit(1)
    coordinator.turn()
    while coordinator.scheduler.now < 8 * DAY:
        coordinator.wait(1_700)
        assert member.heartbeat() == ErrorCode.NONE
    assert coordinator.committed() == 1, "it is subscribed to the topic"
    member.leave()
    coordinator.wait(6 * DAY)
    assert coordinator.committed() == 1
    coordinator.wait(2 * DAY)
    assert coordinator.committed() is None


def test_an_offset_with_a_retention_of_its_own_expires_by_it(coordinator: Coordinator) -> None:
    commit(coordinator, 1, retention_ms=3_600_000, version=4)
    commit(coordinator, 2, partition=1)
    coordinator.wait(2 * 3600)
    assert coordinator.committed() is None
    assert coordinator.committed(partition=1) == 2


def test_many_offsets_that_expire_at_once_are_written_in_several_batches() -> None:
    coordinator = Coordinator(GroupSettings(offsets_retention_ms=1000))
    for partition in range(3000):
        coordinator.commit_offset(1, partition=partition)
    coordinator.turn()
    before = coordinator.log.appends
    coordinator.wait(601)
    assert coordinator.committed() is None
    assert coordinator.log.appends > before + 1


def write_transaction(coordinator: Coordinator, offset: int, end: bool | None) -> None:
    """Offsets of a transaction as its coordinator will write them, and their marker."""
    partition = coordinator.service.partition_for(GROUP)
    builder = BatchBuilder()
    record = offset_record(GROUP, "topic", 0, OffsetAndMetadata(offset, -1, "", 0))
    builder.append(0, *GroupRecordFormat().encode(record))
    batch = builder.build(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    coordinator.log.append(GROUP_METADATA_TOPIC, partition, bytes(batch))
    if end is not None:
        marker = transaction_marker_batch(
            commit=end, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
        coordinator.log.append(GROUP_METADATA_TOPIC, partition, bytes(marker))
    coordinator.crash()


def test_offsets_of_an_open_transaction_are_not_stable(coordinator: Coordinator) -> None:
    commit(coordinator, 1)
    write_transaction(coordinator, 2, None)
    assert coordinator.committed() == 1
    ((_, _, [(_, found)]),) = coordinator.ask(
        coordinator.service.fetch_offsets(GROUP, [("topic", bytes(16), [0])], require_stable=True)
    )
    assert found is ErrorCode.UNSTABLE_OFFSET_COMMIT
    coordinator.wait(30 * DAY)
    assert coordinator.group() is not None, "an open transaction keeps the group"


@pytest.mark.parametrize(("end", "expected"), [(True, 2), (False, 1)])
def test_offsets_of_a_transaction_count_when_it_is_committed(
    coordinator: Coordinator, end: bool, expected: int
) -> None:
    commit(coordinator, 1)
    write_transaction(coordinator, 2, end)
    assert coordinator.committed() == expected


def test_a_plain_commit_within_a_transaction_is_the_newer_one(coordinator: Coordinator) -> None:
    write_transaction(coordinator, 2, None)
    commit(coordinator, 3)
    partition = coordinator.service.partition_for(GROUP)
    marker = transaction_marker_batch(
        commit=True, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    coordinator.log.append(GROUP_METADATA_TOPIC, partition, bytes(marker))
    coordinator.crash()
    assert coordinator.committed() == 3


def test_a_tombstone_takes_the_offset_of_an_open_transaction_too(
    coordinator: Coordinator,
) -> None:
    write_transaction(coordinator, 2, None)
    assert delete(coordinator, 0) == [ErrorCode.NONE]
    marker = transaction_marker_batch(
        commit=True, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    partition = coordinator.service.partition_for(GROUP)
    coordinator.log.append(GROUP_METADATA_TOPIC, partition, bytes(marker))
    coordinator.crash()
    assert coordinator.committed() is None


def test_a_retention_beyond_all_time_is_for_ever(coordinator: Coordinator) -> None:
    promise = coordinator.commit_offset(5, retention_ms=2**63 - 1, version=2)
    coordinator.turn()
    assert promise.result().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert coordinator.committed() == 5
