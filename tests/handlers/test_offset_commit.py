"""OffsetCommit in every version: what exists is committed, the rest refused one by one."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import offset_commit
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.records.record import iterate

NAMES = range(2, 10)


def topic(
    name: str = "", topic_id: bytes = bytes(16), partitions: tuple[int, ...] = (0,)
) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=5, committed_metadata="m"
            )
            for index in partitions
        ],
    )


def ask(
    broker: GroupBroker, version: int, *topics: OffsetCommitRequestTopic, **fields: object
) -> OffsetCommitResponse:
    request = OffsetCommitRequest(group_id="g", topics=list(topics), **fields)  # type: ignore[arg-type]
    return broker.ask(offset_commit, request, version, OffsetCommitResponse)


def codes(response: OffsetCommitResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (each.name, [(part.partition_index, part.error_code) for part in each.partitions])
        for each in response.topics
    ]


def offset_in(broker: GroupBroker) -> int | None:
    shard = broker.groups.runtime.read(broker.groups.partition_for("g"), lambda shard: shard)
    found = shard.offsets.fetch("g", "t", bytes(16), 0, stable=True)
    return None if isinstance(found, ErrorCode) else found.offset


@pytest.mark.parametrize("version", NAMES)
def test_what_exists_is_committed_and_the_rest_refused_by_name(version: int) -> None:
    broker = GroupBroker()
    response = ask(broker, version, topic("t", partitions=(0, 1, 7)), topic("nope"))
    assert codes(response) == [("t", [(7, 3), (0, 0), (1, 0)]), ("nope", [(0, 3)])]
    assert offset_in(broker) == 5


def test_since_version_10_topics_are_named_by_their_ids() -> None:
    broker = GroupBroker()
    response = ask(
        broker, 10, topic(topic_id=broker.topic_id, partitions=(0, 9)), topic(topic_id=b"?" * 16)
    )
    known, unknown = response.topics
    assert known.topic_id == broker.topic_id
    assert [(each.partition_index, each.error_code) for each in known.partitions] == [
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.NONE),
    ]
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert offset_in(broker) == 5


def test_the_id_of_the_topic_is_stored_whichever_way_it_was_named() -> None:
    broker = GroupBroker()
    ask(broker, 9, topic("t"))
    partition = broker.groups.partition_for("g")
    data = broker.internal.read("__consumer_offsets", partition, 0, 1 << 20)
    (record,) = iterate(data)
    assert record.value is not None
    assert broker.topic_id in record.value


@pytest.mark.parametrize("version", range(2, 11))
def test_an_error_of_the_group_stands_with_each_partition(version: int) -> None:
    broker = GroupBroker()
    broker.stable()
    known = topic(topic_id=broker.topic_id) if version >= 10 else topic("t")
    response = ask(broker, version, known, generation_id_or_member_epoch=1, member_id="stranger")
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_retention_time_of_old_versions_is_kept() -> None:
    broker = GroupBroker()
    ask(broker, 4, topic("t"), retention_time_ms=60_000)
    assert offset_in(broker) == 5
    broker.scheduler.run_for(24 * 60 * 60)
    assert offset_in(broker) is None


def test_nothing_is_asked_of_the_coordinator_when_nothing_exists() -> None:
    broker = GroupBroker()
    broker.groups.stop()
    assert codes(ask(broker, 9, topic("nope"))) == [("nope", [(0, 3)])]
    assert codes(ask(broker, 9)) == []
