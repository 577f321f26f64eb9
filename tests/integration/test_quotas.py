"""Quotas as clients feel them: a rate that is kept, and others that do not notice.

A client may take at once what fits into all windows, again and again as they pass: with Kafka's
defaults ten seconds' worth every eleven. So a rate is measured over whole rounds of all windows, or
with windows that are short.
"""

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.differential.wire import ask
from tests.integration.admin import create_topic
from tests.integration.conftest import NewBroker
from tools.kafka_peer.broker_process import BrokerProcess
from tools.kafka_peer.peer import run_tool

MEGABYTE = 1_000_000
ROUNDS_SECONDS = 33.0
"""Three rounds of the eleven windows that are Kafka's default."""


def limit(broker: BrokerProcess, client_id: str, **quotas: float) -> None:
    ops = [{"key": key, "value": value, "remove": False} for key, value in quotas.items()]
    entity = [{"entity_type": "client-id", "entity_name": client_id}]
    answer = ask(
        broker.port,
        "AlterClientQuotas",
        1,
        entries=[{"entity": entity, "ops": ops}],
        validate_only=False,
    )
    assert answer["entries"][0]["errorCode"] == 0, answer


class Writing(threading.Thread):
    """A client that writes as fast as it may, and what it has written at which time."""

    def __init__(self, broker: BrokerProcess, topic: str, client_id: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._seconds = seconds
        self._topic = topic
        self._written = 0
        self.seen: list[tuple[float, int]] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "client.id": client_id,
                "linger.ms": 5,
                "batch.size": 50_000,
                "queue.buffering.max.kbytes": 1_000,
                "message.timeout.ms": 120_000,
                "request.timeout.ms": 60_000,
                "socket.timeout.ms": 90_000,
            }
        )

    def run(self) -> None:
        value = bytes(10_000)
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            try:
                self._producer.produce(self._topic, value, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
        self._producer.purge()

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self._written += 10_000
            self.seen.append((time.monotonic(), self._written))

    def rate(self, after: float, seconds: float) -> float:
        """Bytes a second, from so many seconds after the first record on."""
        began = self.seen[0][0] + after

        def written(until: float) -> int:
            return max((size for at, size in self.seen if at < until), default=0)

        return (written(began + seconds) - written(began)) / seconds


def test_a_producer_gets_its_rate_and_others_do_not_notice(new_broker: NewBroker) -> None:
    broker = new_broker(quota_window_num="2", quota_window_size_seconds="1")
    create_topic(broker.bootstrap_servers, "t")
    limit(broker, "limited", producer_byte_rate=MEGABYTE)
    limited = Writing(broker, "t", "limited", 14)
    free = Writing(broker, "t", "free", 14)
    limited.start()
    free.start()
    limited.join()
    free.join()
    assert 0.9 * MEGABYTE < limited.rate(2, 10) < 1.1 * MEGABYTE
    assert free.rate(2, 10) > 3 * MEGABYTE


@pytest.mark.slow
def test_a_producer_gets_its_rate_for_half_a_minute(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t")
    limit(broker, "limited", producer_byte_rate=MEGABYTE)
    limited = Writing(broker, "t", "limited", ROUNDS_SECONDS + 2)
    limited.start()
    limited.join()
    assert 0.9 * MEGABYTE < limited.rate(0, ROUNDS_SECONDS) < 1.1 * MEGABYTE


def test_a_consumer_gets_its_rate_and_all_records(new_broker: NewBroker) -> None:
    broker = new_broker(quota_window_num="3", quota_window_size_seconds="1")
    create_topic(broker.bootstrap_servers, "t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 50_000})
    count = 1_000
    for n in range(count):
        producer.produce("t", b"%04d" % n + bytes(10_000))
        producer.poll(0)
    assert producer.flush(30) == 0
    limit(broker, "limited", consumer_byte_rate=MEGABYTE)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "client.id": "limited",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    seen: list[tuple[float, bytes]] = []
    end = time.monotonic() + 60
    while len(seen) < count and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is None:
            continue
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        seen.append((time.monotonic(), value))
    consumer.close()
    assert [value[:4] for _, value in seen] == [b"%04d" % n for n in range(count)]
    took = seen[-1][0] - seen[0][0]
    # Ten megabytes, of which two come at once.
    assert 6.0 < took < 12.0


@pytest.mark.peer
def test_kafka_configs_sets_describes_and_removes_quotas(new_broker: NewBroker) -> None:
    broker = new_broker()

    def configs(*args: str) -> str:
        done = run_tool("kafka-configs", "--bootstrap-server", broker.bootstrap_servers, *args)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    alice = ("--entity-type", "users", "--entity-name", "alice")
    anybody = ("--entity-type", "clients", "--entity-default")
    both = (*alice, "--entity-type", "clients", "--entity-name", "c")
    address = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
    configs("--alter", *alice, "--add-config", "producer_byte_rate=1000,request_percentage=12.5")
    configs("--alter", *anybody, "--add-config", "consumer_byte_rate=2000")
    configs("--alter", *both, "--add-config", "controller_mutation_rate=0.5")
    configs("--alter", *address, "--add-config", "connection_creation_rate=7")
    described = configs("--describe", *alice)
    assert "Quota configs for user-principal 'alice' are" in described
    assert "producer_byte_rate=1000.0" in described
    assert "request_percentage=12.5" in described
    assert "consumer_byte_rate=2000.0" in configs("--describe", *anybody)
    assert "controller_mutation_rate=0.5" in configs("--describe", *both)
    assert "connection_creation_rate=7.0" in configs("--describe", *address)
    configs("--alter", *alice, "--delete-config", "producer_byte_rate")
    left = configs("--describe", *alice)
    assert "producer_byte_rate" not in left
    assert "request_percentage=12.5" in left
