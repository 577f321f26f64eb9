"""DescribeTopicPartitions: pages of partitions in the order of the topics' names."""

import pytest
from tests.handlers.broker import Broker

from ottla.common.errors import ErrorCode
from ottla.handlers import describe_topic_partitions
from ottla.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

Cursor = tuple[str, int]
Page = list[tuple[str | None, int, list[int]]]


def ask(
    broker: Broker, names: list[str], cursor: Cursor | None = None, limit: int = 2000
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit
    )
    if cursor is not None:
        request.cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=cursor[0], partition_index=cursor[1]
        )
    return broker.ask(describe_topic_partitions, request, 0, DescribeTopicPartitionsResponse)


def page(response: DescribeTopicPartitionsResponse) -> tuple[Page, Cursor | None]:
    shown = [
        (topic.name, topic.error_code, [p.partition_index for p in topic.partitions])
        for topic in response.topics
    ]
    cursor = response.next_cursor
    return shown, None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.fixture
def broker() -> Broker:
    made = Broker()
    made.add_topic("t2")
    made.add_topic("t1", 3)
    return made


def test_all_topics_come_in_order_when_none_is_named(broker: Broker) -> None:
    assert page(ask(broker, [])) == ([("t1", 0, [0, 1, 2]), ("t2", 0, [0])], None)


def test_named_topics_come_in_order_and_once_and_those_that_are_not_there_say_so(
    broker: Broker,
) -> None:
    shown, cursor = page(ask(broker, ["t1", "nope", "bad/", "t1"]))
    assert shown == [
        ("bad/", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("t1", 0, [0, 1, 2]),
    ]
    assert cursor is None


@pytest.mark.parametrize(
    ("limit", "shown", "cursor"),
    [
        (0, [("t1", 0, [0])], ("t1", 1)),
        (1, [("t1", 0, [0])], ("t1", 1)),
        (2, [("t1", 0, [0, 1])], ("t1", 2)),
        (3, [("t1", 0, [0, 1, 2])], ("t2", 0)),
        (4, [("t1", 0, [0, 1, 2]), ("t2", 0, [0])], None),
    ],
)
def test_a_page_ends_after_so_many_partitions(
    broker: Broker, limit: int, shown: Page, cursor: Cursor | None
) -> None:
    assert page(ask(broker, [], limit=limit)) == (shown, cursor)


def test_the_brokers_own_limit_holds_too() -> None:
    broker = Broker({"max.request.partition.size.limit": "2"})
    broker.add_topic("t1", 3)
    assert page(ask(broker, [])) == ([("t1", 0, [0, 1])], ("t1", 2))


def test_unknown_topics_do_not_count(broker: Broker) -> None:
    shown, cursor = page(ask(broker, ["nope", "t1", "t2"], limit=3))
    assert [name for name, _, _ in shown] == ["nope", "t1"]
    assert cursor == ("t2", 0)


def test_a_page_may_end_at_a_topic_that_is_not_there(broker: Broker) -> None:
    assert page(ask(broker, ["t1", "zz"], limit=3))[1] == ("zz", 0)


def test_pages_follow_one_another_without_gap_or_overlap(broker: Broker) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    while True:
        shown, cursor = page(ask(broker, [], cursor, limit=1))
        seen += [(name, index) for name, _, indexes in shown for index in indexes]
        if cursor is None:
            break
    assert seen == [("t1", 0), ("t1", 1), ("t1", 2), ("t2", 0)]


def test_a_cursor_beyond_the_topics_partitions_shows_none(broker: Broker) -> None:
    assert page(ask(broker, ["t1"], ("t1", 7))) == ([("t1", 0, [])], None)


def test_a_cursor_at_a_topic_that_is_gone_goes_on_behind_it(broker: Broker) -> None:
    assert page(ask(broker, [], ("t1b", 3))) == ([("t2", 0, [0])], None)


@pytest.mark.parametrize("cursor", [("t2", 0), ("t1", -1)])
def test_a_cursor_that_makes_no_sense_is_refused(broker: Broker, cursor: Cursor) -> None:
    answer = ask(broker, ["t1"], cursor)
    assert [(t.name, t.error_code) for t in answer.topics] == [("t1", ErrorCode.INVALID_REQUEST)]


def test_a_topic_without_a_name_spoils_the_whole_request(broker: Broker) -> None:
    answer = ask(broker, ["t1", ""])
    assert [t.error_code for t in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def test_eligible_leader_replicas_are_told() -> None:
    broker = Broker()
    broker.add_topic("t", replicas=(1, 7, 8), elr=(7,), last_known_elr=(8,))
    (partition,) = ask(broker, ["t"]).topics[0].partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([7], [8])
    assert partition.offline_replicas == [7, 8]
