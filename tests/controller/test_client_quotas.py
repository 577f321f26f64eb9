"""AlterClientQuotas, and what partitions cost; see tests/differential for Kafka's own answers."""

import math

import pytest
from tests.controller.machines import Controller, error

from ottla.common.errors import ErrorCode, ThrottlingQuotaExceeded
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState

RATE = "producer_byte_rate"
INVALID = "INVALID_REQUEST"
Entity = tuple[tuple[str, str | None], ...]
ALICE: Entity = (("user", "alice"),)


def entry(entity: Entity, **ops: float | None) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()
        ],
    )


def alter(
    controller: Controller,
    *entries: AlterClientQuotasRequestEntryData,
    validate_only: bool = False,
) -> list[str]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = controller.apply(controller.machine.client_quotas.alter_quotas(request))
    return [error(each.error_code, each.error_message)[0] for each in response.entries]


def test_a_quota_is_set_changed_and_removed() -> None:
    controller = Controller()
    assert alter(controller, entry(ALICE, producer_byte_rate=5.0)) == ["NONE"]
    assert controller.image.client_quotas == {ALICE: {RATE: 5.0}}
    alter(controller, entry(ALICE, producer_byte_rate=6.0, request_percentage=0.5))
    assert controller.image.client_quotas == {ALICE: {RATE: 6.0, "request_percentage": 0.5}}
    alter(controller, entry(ALICE, producer_byte_rate=None))
    alter(controller, entry(ALICE, request_percentage=None))
    assert controller.image.client_quotas == {}


def test_what_changes_nothing_writes_nothing() -> None:
    controller = Controller()
    alter(controller, entry(ALICE, producer_byte_rate=5.0))
    written = len(controller.records)
    assert alter(controller, entry(ALICE, producer_byte_rate=5.0)) == ["NONE"]
    assert alter(controller, entry(ALICE, consumer_byte_rate=None)) == ["NONE"]
    only = alter(controller, entry(ALICE, producer_byte_rate=7.0), validate_only=True)
    assert only == ["NONE"]
    assert len(controller.records) == written


def test_each_entity_stands_for_itself() -> None:
    controller = Controller()
    bad = entry((("user", ""),), producer_byte_rate=5.0)
    good = entry((("client-id", None),), producer_byte_rate=5.0)
    assert alter(controller, bad, good) == [INVALID, "NONE"]
    assert controller.image.client_quotas == {(("client-id", None),): {RATE: 5.0}}


def test_an_entity_that_stands_twice_is_refused_and_not_set() -> None:
    controller = Controller()
    one = entry((("user", "a"), ("client-id", "c")), producer_byte_rate=5.0)
    other = entry((("client-id", "c"), ("user", "a")), consumer_byte_rate=5.0)
    assert alter(controller, one, other) == [INVALID]
    assert controller.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((), RATE, 5.0),
        ((("group", "g"),), RATE, 5.0),
        ((("user", ""),), RATE, 5.0),
        ((("ip", "10.0.0.1"), ("user", "u")), "connection_creation_rate", 5.0),
        ((("ip", "localhost"),), "connection_creation_rate", 5.0),
        ((("ip", "10.0.0.1"),), RATE, 5.0),
        ((("ip", "10.0.0.1"),), "connection_creation_rate", 2.0**31),
        (ALICE, "connection_creation_rate", 5.0),
        (ALICE, "no_such_rate", 5.0),
        (ALICE, RATE, 0.0),
        (ALICE, RATE, -1.0),
        (ALICE, RATE, 1.5),
        (ALICE, RATE, 1e19),
        (ALICE, RATE, math.inf),
        (ALICE, RATE, math.nan),
        (ALICE, "request_percentage", 0.0),
        (ALICE, "request_percentage", math.nan),
    ],
)
def test_what_is_no_quota_is_refused(entity: Entity, key: str, value: float) -> None:
    controller = Controller()
    made = entry(entity)
    made.ops = [OpData(key=key, value=value, remove=False)]
    assert alter(controller, made) == [INVALID]
    assert controller.image.client_quotas == {}


def test_a_key_that_stands_twice_is_refused() -> None:
    controller = Controller()
    made = entry(ALICE)
    made.ops = [OpData(key=RATE, value=value, remove=False) for value in (1.0, 2.0)]
    assert alter(controller, made) == [INVALID]


# What partitions cost


class Purse:
    """Pays for so many partitions, and no more."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.charged: list[int] = []

    def __call__(self, partitions: int) -> None:
        self.charged.append(partitions)
        if self.tokens < 0:
            raise ThrottlingQuotaExceeded("not now")
        self.tokens -= partitions


def creation(*counts: int, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=f"t{n}", num_partitions=count, replication_factor=1)
            for n, count in enumerate(counts)
        ],
        validate_only=validate_only,
    )


def test_new_topics_are_paid_for_by_their_partitions_one_by_one() -> None:
    controller, purse = Controller(), Purse(2)
    controller.start_broker(0)
    made = controller.apply(controller.machine.topics.create_topics(creation(3, 1), purse))
    assert purse.charged == [3, 1]
    assert [topic.error_code for topic in made.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert set(controller.image.topics.by_name) == {"t0"}


def test_what_is_refused_anyway_costs_nothing_and_a_trial_does() -> None:
    controller, purse = Controller(), Purse(100)
    controller.start_broker(0)
    trial = creation(3, 0, validate_only=True)
    controller.apply(controller.machine.topics.create_topics(trial, purse))
    assert purse.charged == [3]


def test_more_partitions_are_paid_for_by_those_that_are_added() -> None:
    controller, purse = Controller(), Purse(0)
    controller.start_broker(0)
    controller.apply(controller.machine.topics.create_topics(creation(2, 2)))
    wanted = [CreatePartitionsTopic(name=name, count=5, assignments=None) for name in ("t0", "t1")]
    request = CreatePartitionsRequest(topics=wanted)
    response = controller.apply(
        controller.machine.partition_counts.create_partitions(request, purse)
    )
    assert purse.charged == [3, 3]
    codes = {each.name: each.error_code for each in response.results}
    assert codes == {"t0": 0, "t1": ErrorCode.THROTTLING_QUOTA_EXCEEDED}


def test_topics_that_go_are_paid_for_by_their_partitions() -> None:
    controller, purse = Controller(), Purse(0)
    controller.start_broker(0)
    controller.apply(controller.machine.topics.create_topics(creation(2, 4)))
    topics = [DeleteTopicState(name=name) for name in ("t0", "t1", "unknown")]
    request = DeleteTopicsRequest(topics=topics)
    response = controller.apply(controller.machine.topics.delete_topics(request, purse))
    assert purse.charged == [2, 4]
    codes = {each.name: each.error_code for each in response.responses}
    assert codes["t1"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert set(controller.image.topics.by_name) == {"t1"}
