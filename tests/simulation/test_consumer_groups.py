"""A consumer group on the whole node, in virtual time, with kill -9 of the broker in between."""

import pytest

from ottla.common.errors import ErrorCode
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

PARTITIONS = 6
LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


class Member:
    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def beat(self, client: SimulatedClient) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="group",
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=each)
                for topic_id, each in self.owned.items()
            ],
        )
        answer = client.ask(request, ConsumerGroupHeartbeatResponse, 1)
        if answer.error_code in LOADING:
            return
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        assert answer.member_epoch >= self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = {topic.topic_id: list(topic.partitions) for topic in topics}

    @property
    def partitions(self) -> list[int]:
        return [partition for each in self.owned.values() for partition in each]


def run(seed: int) -> list[list[int]]:
    """Three members that come one after the other, and a broker that is killed between beats."""
    broker = SimulatedBroker(seed)
    broker.start()
    client = SimulatedClient(broker)
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    find = FindCoordinatorRequest(coordinator_keys=["group"])
    client.ask(find, FindCoordinatorResponse, 4)
    members = [Member(name) for name in "abc"]
    for round_number in range(30):
        for member in members[: 1 + round_number // 4]:
            member.beat(client)
            owned = [partition for each in members for partition in each.partitions]
            assert len(owned) == len(set(owned)), "two members have one partition"
        broker.scheduler.run_for(1.5)
        if round_number % 7 == 5:
            broker.kill()
            broker.start()
            client = SimulatedClient(broker)
    broker.stop()
    return [sorted(member.partitions) for member in members]


@pytest.mark.parametrize("seed", [1, 848])
def test_a_group_survives_its_coordinator(seed: int) -> None:
    shares = run(seed)
    assert sorted(partition for share in shares for partition in share) == list(range(PARTITIONS))
    assert [len(share) for share in shares] == [2, 2, 2]
    assert run(seed) == shares
