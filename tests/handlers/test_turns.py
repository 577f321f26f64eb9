"""Requests with many names: judged in turns, and answered as those with few are."""

from typing import Final

import pytest
from tests.handlers.broker import Broker, Peer
from tests.handlers.secured import DESCRIBE, TOPIC, Acls, alice
from tests.handlers.test_dispatch import header

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import describe_topic_partitions, list_offsets, metadata
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.protocol.generated.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.message import to_bytes
from ottla.requests.dispatch import BrokerDispatcher
from ottla.requests.turns import NAMES_AT_ONCE

MANY: Final = 3 * NAMES_AT_ONCE
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OFFSETS_VERSION: Final = 7


class Asked:
    """A broker with a topic that alice may describe, and one that she may not."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.acls = Acls(self.broker)
        for name in ("mine", "other"):
            self.broker.add_topic(name)
        self.acl = self.acls.add(DESCRIBE, TOPIC, "mine")

    def metadata(self, names: list[str]) -> list[tuple[str | None, int, int]]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        promise = self.broker.start(metadata, request, 12, alice())
        self.broker.scheduler.run_for(1)
        answer = self.broker.answer(metadata, request, promise, 12, MetadataResponse)
        return [(each.name, each.error_code, len(each.partitions)) for each in answer.topics]

    def list_offsets(self, names: list[str]) -> Promise[ListOffsetsResponse]:
        return self.broker.start(list_offsets, offsets_of(names), OFFSETS_VERSION, alice())


@pytest.fixture
def asked() -> Asked:
    return Asked()


def offsets_of(names: list[str]) -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=name) for name in names])


def test_metadata_of_many_names_is_that_of_few(asked: Asked) -> None:
    few, many = ["other", "mine", "x-0"], [f"x-{i}" for i in range(1, MANY)]
    known = [("mine", 0, 1)]
    assert asked.metadata(few) == [*known, ("other", DENIED, 0), ("x-0", DENIED, 0)]
    assert asked.metadata(few + many) == [
        *known,
        *((name, DENIED, 0) for name in ["other", "x-0", *many]),
    ]


def test_what_is_denied_of_many_is_refused_behind_what_is_not(asked: Asked) -> None:
    names = [f"x-{i}" for i in range(MANY)]
    promise = asked.list_offsets([*names, "mine"])
    assert not promise.done
    asked.broker.scheduler.run_for(1)
    assert [topic.name for topic in promise.result().topics] == ["mine", *names]
    assert asked.acls.audit.denied.value == MANY


def test_few_names_are_judged_in_the_turn_of_their_request(asked: Asked) -> None:
    assert asked.list_offsets([f"x-{i}" for i in range(NAMES_AT_ONCE)]).done


def test_each_name_is_judged_by_the_acls_of_its_turn(asked: Asked) -> None:
    promise = asked.list_offsets(["mine"] + ["x"] * MANY + ["mine"])
    asked.acls.remove(asked.acl)
    asked.broker.scheduler.run_for(1)
    names = [topic.name for topic in promise.result().topics]
    assert names.count("mine") == 2
    assert (names[0], names[-1]) == ("mine", "mine"), "one is answered, one refused"


def test_all_topics_of_a_large_cluster_are_judged_in_turns(asked: Asked) -> None:
    for i in range(200):
        asked.broker.add_topic(f"t-{i}", replicas=(9,), leader=9)
    request = DescribeTopicPartitionsRequest(topics=[])
    promise = asked.broker.start(describe_topic_partitions, request, 0, alice())
    asked.broker.scheduler.run_for(1)
    answer = asked.broker.answer(
        describe_topic_partitions, request, promise, 0, DescribeTopicPartitionsResponse
    )
    assert [topic.name for topic in answer.topics] == ["mine"]


@pytest.mark.parametrize(("count", "is_first"), [(NAMES_AT_ONCE, False), (MANY, True)])
def test_a_long_request_is_answered_before_the_next_is_read(
    asked: Asked, count: int, is_first: bool
) -> None:
    peer: Peer = alice()
    request = offsets_of([f"x-{i}" for i in range(count)])
    frame = header(ApiKey.LIST_OFFSETS, OFFSETS_VERSION) + to_bytes(request, OFFSETS_VERSION)
    answer = BrokerDispatcher(asked.broker.services).answer(peer, memoryview(frame))
    assert isinstance(answer, Promise) == is_first
    assert len(peer.answered_first) == is_first
    assert peer.held == (len(frame) if is_first else 0)
    asked.broker.scheduler.run_for(1)
    assert peer.held == 0
