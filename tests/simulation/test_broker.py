"""The real server on virtual time, network and disk: its lives, its promises, its determinism.

An acknowledged record survives kill -9; after a power cut a prefix survives, and with it all that
was flushed. An idempotent producer that sends again what it has no answer for leaves no duplicate.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.metadata.topics import RECOVERED
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.batch import batches
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.simulation.broker import DIRECTORY, SimulatedBroker
from ottla.simulation.client import Disconnected, SimulatedClient

TOPIC = "t"


def create_topic(client: SimulatedClient, **configs: str) -> None:
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    answer = client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == ErrorCode.NONE


class Producer:
    """Idempotent, one request at a time; sends again what was not answered."""

    def __init__(self, client: SimulatedClient, now_ms: int) -> None:
        init = client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, 4)
        self.producer_id = init.producer_id
        self.epoch = init.producer_epoch
        self.sequence = 0
        self._now_ms = now_ms

    def batch(self, values: list[bytes]) -> bytes:
        return bytes(
            build_batch(
                [
                    Record(offset=i, timestamp=self._now_ms, key=None, value=value, headers=[])
                    for i, value in enumerate(values)
                ],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
            )
        )

    def send(self, client: SimulatedClient, values: list[bytes], index: int = 0) -> int:
        partition = PartitionProduceData(index=index, records=self.batch(values))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
        )
        answer = client.ask(request, ProduceResponse, 9).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        self.sequence += len(values)
        return answer.base_offset


def read_all(client: SimulatedClient) -> list[bytes]:
    values: list[bytes] = []
    offset = 0
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = client.ask(request, FetchResponse, 12).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        records = answer.records or b""
        if not records:
            return values
        for position, size in batches(records, 0, len(records)):
            for record in iterate(records[position : position + size], 0):
                if record.offset >= offset:
                    assert record.offset == len(values), "a gap or a duplicate"
                    assert record.value is not None
                    values.append(bytes(record.value))
                    offset = record.offset + 1


def run_lives(seed: int, *, power: bool) -> tuple[list[bytes], list[bytes], str]:
    """Several lives with random ends; returns what was acknowledged, what is there, the trace."""
    broker = SimulatedBroker(seed, {"log.segment.bytes": str(1 << 20)})
    chance = Chance(seed + 1)
    broker.start()
    client = SimulatedClient(broker)
    create_topic(client, flush_messages="1" if power else "9223372036854775807")
    producer = Producer(client, broker.scheduler.wall_ms())
    end = broker.lose_power if power else broker.kill
    acknowledged: list[bytes] = []
    unanswered: list[bytes] = []
    for _ in range(3):
        for _ in range(chance.below(12) + 1):
            values = unanswered or [
                b"%d" % (len(acknowledged) + i) for i in range(chance.below(4) + 1)
            ]
            if chance.below(8) == 0:
                broker.scheduler.call_later(chance.between(0.0, 0.004), end)
            unanswered = values
            try:
                producer.send(client, values)
            except Disconnected:
                break
            unanswered = []
            acknowledged += values
            broker.note(f"acknowledged {len(acknowledged)}")
        if broker.is_running:
            end()
        broker.start()
        client = SimulatedClient(broker)
    if unanswered:
        producer.send(client, unanswered)
        acknowledged += unanswered
    found = read_all(client)
    broker.stop()
    return acknowledged, found, broker.trace


@pytest.mark.parametrize("seed", range(12))
def test_what_was_acknowledged_survives_kill_9_once_and_in_order(seed: int) -> None:
    acknowledged, found, _ = run_lives(seed, power=False)
    assert found == acknowledged


@pytest.mark.parametrize("seed", range(12))
def test_what_was_flushed_survives_a_power_cut_once_and_in_order(seed: int) -> None:
    acknowledged, found, _ = run_lives(seed, power=True)
    assert found == acknowledged


def test_a_request_sent_again_after_a_crash_is_not_written_twice() -> None:
    broker = SimulatedBroker(5)
    broker.start()
    client = SimulatedClient(broker)
    create_topic(client)
    producer = Producer(client, broker.scheduler.wall_ms())
    producer.send(client, [b"a", b"b"])
    producer.sequence = 0
    broker.kill()
    broker.start()
    client = SimulatedClient(broker)
    assert producer.send(client, [b"a", b"b"]) == 0
    assert read_all(client) == [b"a", b"b"]
    broker.stop()


@pytest.mark.parametrize("killed", [False, True])
def test_partitions_of_a_large_topic_are_there_when_they_are_used(*, killed: bool) -> None:
    """Their logs are made little by little, after the answer; an earlier request finds one."""
    broker = SimulatedBroker(3)
    broker.start()
    client = SimulatedClient(broker)
    topic = CreatableTopic(name=TOPIC, num_partitions=200, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    if killed:
        broker.kill()
        broker.start()
        client = SimulatedClient(broker)
    producer = Producer(client, broker.scheduler.wall_ms())
    for index in (199, 0, 100):
        producer.sequence = 0
        assert producer.send(client, [b"early"], index) == 0
    broker.scheduler.run_for(5)
    names = broker.files.list_directory(DIRECTORY)
    assert {f"{TOPIC}-{index}" for index in range(200)} <= set(names)
    producer.sequence = 1
    assert producer.send(client, [b"later"], 100) == 1
    broker.stop()


@pytest.mark.parametrize("clean", [True, False])
def test_after_any_end_every_partition_has_a_leader_and_has_recovered(*, clean: bool) -> None:
    broker = SimulatedBroker(9)
    broker.start()
    client = SimulatedClient(broker)
    create_topic(client)
    if clean:
        broker.stop()
    else:
        broker.kill()
    broker.start()
    broker.scheduler.run_for(1)
    partition = broker.image.topics.by_name[TOPIC].partitions[0]
    assert partition.leader == 1
    assert partition.isr == (1,)
    assert partition.leader_recovery_state == RECOVERED
    broker.stop()


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from test_broker import run_lives; print(run_lives(3, power=True)[2])"
    )
    folder = str(Path(__file__).parent)
    traces = {
        subprocess.run(
            [sys.executable, "-c", program, folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(traces) == 1
    assert traces != {run_lives(4, power=True)[2] + "\n"}
