"""A whole broker whose older segments are in a remote store: over kills and power cuts."""

import pytest
from tests.simulation.test_broker import Producer, create_topic, read_all

from ottla.common.chance import Chance
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.simulation.broker import DIRECTORY, SimulatedBroker
from ottla.simulation.client import SimulatedClient

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
TOPIC = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "1000",
    "local_retention_ms": "1",
    "flush_messages": "1",
    "file_delete_delay_ms": "0",
}


def run_lives(seed: int, *, power: bool) -> tuple[SimulatedBroker, list[bytes]]:
    """Several lives with random ends; what was acknowledged is in ``sent``."""
    broker = SimulatedBroker(seed, SETTINGS)
    chance = Chance(seed + 1)
    broker.start()
    client = SimulatedClient(broker)
    create_topic(client, **TOPIC)
    producer = Producer(client, broker.scheduler.wall_ms())
    sent: list[bytes] = []
    for _ in range(4):
        for _ in range(6):
            values = [b"%d " % (len(sent) + number) * 20 for number in range(5)]
            producer.send(client, values)
            sent += values
            broker.scheduler.run_for(chance.between(0.0, 1.0))
        broker.note(f"sent {len(sent)}")
        if power:
            broker.lose_power()
        else:
            broker.kill()
        broker.start()
        client = SimulatedClient(broker)
    broker.scheduler.run_for(5)
    return broker, sent


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_is_read_from_both_tiers_after_any_end(
    seed: int, *, power: bool
) -> None:
    broker, sent = run_lives(seed, power=power)
    files = broker.files.list_directory(f"{DIRECTORY}/t-0")
    local = sorted(name for name in files if name.endswith(".log"))
    assert int(local[0].removesuffix(".log")) > 90
    assert len(broker.remote_store.objects) > 10
    assert read_all(SimulatedClient(broker)) == sent
    broker.stop()


def test_a_seed_repeats_itself() -> None:
    first, _ = run_lives(7, power=True)
    second, _ = run_lives(7, power=True)
    assert first.trace == second.trace
    assert first.remote_store.objects == second.remote_store.objects


@pytest.mark.parametrize("killed", [False, True])
def test_a_deleted_topic_leaves_nothing_in_the_store(*, killed: bool) -> None:
    broker, _ = run_lives(5, power=False)
    assert broker.remote_store.objects
    client = SimulatedClient(broker)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert client.ask(request, DeleteTopicsResponse, 6).responses[0].error_code == 0
    if killed:
        broker.kill()
        broker.start()
    broker.scheduler.run_for(10)
    assert broker.remote_store.objects == {}
    broker.stop()
