"""OffsetFetch in every version: one group or several, all offsets or some."""

import pytest
from tests.handlers.groups import PARTITIONS, GroupBroker
from tests.replication.states import lead

from ottla.common.errors import ApiError, ErrorCode
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.handlers import offset_commit, offset_fetch
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker()
    broker.commit(42)
    return broker


def ask(broker: GroupBroker, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
    return broker.ask(offset_fetch, request, version, OffsetFetchResponse)


def single(topics: list[str] | None) -> OffsetFetchRequest:
    asked = None
    if topics is not None:
        asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1]) for name in topics]
    return OffsetFetchRequest(group_id="g", topics=asked)


@pytest.mark.parametrize("version", range(1, 8))
def test_the_offsets_of_one_group(broker: GroupBroker, version: int) -> None:
    response = ask(broker, version, single(["t", "nope"]))
    assert response.error_code == ErrorCode.NONE
    assert [
        (topic.name, [(each.committed_offset, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ] == [("t", [(42, 0), (-1, 0)]), ("nope", [(-1, 0), (-1, 0)])]


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_one_group(broker: GroupBroker, version: int) -> None:
    response = ask(broker, version, single(None))
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("t", 1)]


@pytest.mark.parametrize("version", range(1, 8))
def test_an_error_of_one_group_stands_where_its_version_has_room(
    broker: GroupBroker, version: int
) -> None:
    broker.groups.resigned(broker.groups.partition_for("g"))
    response = ask(broker, version, single(["t"]))
    if version >= 2:
        assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])
    else:
        errors = [each.error_code for each in response.topics[0].partitions]
        assert errors == [ErrorCode.NOT_COORDINATOR] * 2


def groups(broker: GroupBroker, version: int) -> OffsetFetchRequest:
    named = OffsetFetchRequestTopics(partition_indexes=[0])
    if version >= 10:
        named.topic_id = broker.topic_id
    else:
        named.name = "t"
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=[named]),
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(group_id="other", topics=None),
        ],
        require_stable=True,
    )


@pytest.mark.parametrize("version", range(8, 11))
def test_the_offsets_of_several_groups(broker: GroupBroker, version: int) -> None:
    response = ask(broker, version, groups(broker, version))
    assert [group.group_id for group in response.groups] == ["g", "g", "other"]
    for group in response.groups[:2]:
        (topic,) = group.topics
        assert topic.partitions[0].committed_offset == 42
        assert topic.name == ("" if version >= 10 else "t")
        assert topic.topic_id == (broker.topic_id if version >= 10 else bytes(16))
    assert (response.groups[2].topics, response.groups[2].error_code) == ([], ErrorCode.NONE)


def test_a_group_that_is_coordinated_elsewhere_does_not_spoil_the_others(
    broker: GroupBroker,
) -> None:
    elsewhere = next(
        name
        for name in "abcdefgh"
        if broker.groups.partition_for(name) != broker.groups.partition_for("g")
    )
    broker.groups.resigned(broker.groups.partition_for(elsewhere))
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in (elsewhere, "g")]
    )
    refused, found = ask(broker, 8, request).groups
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert found.topics[0].partitions[0].committed_offset == 42


def test_an_unknown_topic_id_is_told_with_its_partitions(broker: GroupBroker) -> None:
    unknown = OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[3])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[unknown])])
    ((topic,),) = [group.topics for group in ask(broker, 10, request).groups]
    assert topic.topic_id == b"?" * 16
    (partition,) = topic.partitions
    assert (partition.partition_index, partition.committed_offset, partition.error_code) == (
        3,
        -1,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def test_offsets_of_a_topic_that_is_gone_have_no_id_to_be_named_by(broker: GroupBroker) -> None:
    topics = broker.metadata.image.topics
    broker.set_image(
        topics=TopicsImage({GROUP_METADATA_TOPIC: topics.by_name[GROUP_METADATA_TOPIC]})
    )
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert ask(broker, 9, request).groups[0].topics[0].name == "t"
    assert ask(broker, 10, request).groups[0].topics == []


def test_a_request_that_fails_as_a_whole_fails_for_each_group() -> None:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])
    refused = offset_fetch.refuse(request, ApiError(), 8)
    assert (refused.error_code, refused.groups[0].error_code) == (-1, -1)


def test_groups_whose_offsets_are_not_committed_wait_together(broker: GroupBroker) -> None:
    """However many are asked for, the answer comes within the time that one of them has."""
    for index in range(PARTITIONS):
        partition = broker.replicas.partition(GROUP_METADATA_TOPIC, index)
        assert partition is not None
        lead(partition, partition.node_id, 1, (partition.node_id, 2))  # and broker 2 is away
    names = [f"g{number}" for number in range(50)]
    for name in names:
        broker.start(offset_commit, broker.commit_request(5, name), 8)
    broker.scheduler.run_for(1)
    request = OffsetFetchRequest(
        require_stable=True,
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
    )
    asked = broker.start(offset_fetch, request, 8)
    broker.scheduler.run_for(5)
    answer = broker.answer(offset_fetch, request, asked, 8, OffsetFetchResponse)
    assert {group.error_code for group in answer.groups} == {ErrorCode.NOT_COORDINATOR}
    assert [group.group_id for group in answer.groups] == names
