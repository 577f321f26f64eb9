"""OffsetDelete."""

from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import offset_delete
from ottla.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def ask(
    broker: GroupBroker, group_id: str, **topics: tuple[int, ...]
) -> tuple[int, list[tuple[str, list[tuple[int, int]]]]]:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions],
            )
            for name, partitions in topics.items()
        ],
    )
    response = broker.ask(offset_delete, request, 0, OffsetDeleteResponse)
    return response.error_code, [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


def test_offsets_are_deleted_and_what_does_not_exist_is_refused() -> None:
    broker = GroupBroker()
    broker.commit(5)
    broker.commit(6, partition=1)
    code, topics = ask(broker, "g", t=(1, 8), nope=(0,))
    assert code == ErrorCode.NONE
    assert topics == [("t", [(8, 3), (1, 0)]), ("nope", [(0, 3)])]
    shard = broker.groups.runtime.read(broker.groups.partition_for("g"), lambda shard: shard)
    assert [key.partition for key in shard.offsets.topic_partitions("g", stable=True)] == [0]


def test_a_group_that_is_not_there_is_refused_as_a_whole() -> None:
    broker = GroupBroker()
    assert ask(broker, "nowhere", t=(0,)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert ask(broker, "", t=(0,)) == (ErrorCode.INVALID_GROUP_ID, [])


def test_a_group_with_members_keeps_the_offsets_of_what_it_reads() -> None:
    broker = GroupBroker()
    broker.stable()
    code, topics = ask(broker, "g", t=(0,))
    assert (code, topics) == (0, [("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)])])
