"""An idempotent producer whose answers are lost writes each record once, in order."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from tests.integration.admin import create_topic, offsets
from tests.integration.clients import CLIENTS, Message
from tests.integration.proxy import AnswerSwallower
from tests.integration.segments import batches
from tools.kafka_peer.broker_process import BrokerProcess, Program

COUNT = 400


@pytest.fixture
def lossy(program: Program, tmp_path: Path) -> Iterator[tuple[BrokerProcess, AnswerSwallower]]:
    """A broker whose advertised address is a proxy that swallows each third answer to Produce."""
    broker = BrokerProcess(program, tmp_path / "broker")
    proxy = AnswerSwallower(broker.port, every=3)
    broker.settings = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port},"
        f"CONTROLLER://127.0.0.1:{broker.controller_port}"
    }
    broker.start()
    yield broker, proxy
    proxy.close()
    broker.kill()


def test_librdkafka_sends_again_and_nothing_is_doubled(
    lossy: tuple[BrokerProcess, AnswerSwallower],
) -> None:
    broker, proxy = lossy
    create_topic(f"127.0.0.1:{proxy.port}", "t")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{proxy.port}",
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 10,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 20,
        }
    )
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for n in range(COUNT):
        producer.produce("t", b"%d" % n, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0

    assert failed == []
    _each_once_and_in_order(broker, proxy)


def test_kafka_python_sends_again_and_nothing_is_doubled(
    lossy: tuple[BrokerProcess, AnswerSwallower],
) -> None:
    broker, proxy = lossy
    create_topic(f"127.0.0.1:{proxy.port}", "t")
    producer = kafka.KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{proxy.port}",
        enable_idempotence=True,
        batch_size=100,
        retry_backoff_ms=10,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=20,
    )
    try:
        futures = [producer.send("t", b"%d" % n, partition=0) for n in range(100)]
        producer.flush(60)
        assert [future.get(30).offset for future in futures] == list(range(100))
    finally:
        producer.close()

    _each_once_and_in_order(broker, proxy, count=100)


def _each_once_and_in_order(
    broker: BrokerProcess, proxy: AnswerSwallower, *, count: int = COUNT
) -> None:
    assert proxy.swallowed > 2, "no answer was swallowed: nothing is shown"
    assert offsets(broker.bootstrap_servers, "t") == (0, count)
    received = CLIENTS[0].consume(f"127.0.0.1:{proxy.port}", "t", count)
    assert [each.value for each in received] == [b"%d" % n for n in range(count)]
    assert all(batch.producer_id >= 0 for batch in batches(broker.log_directory, "t"))


def test_producers_get_different_ids(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    for _ in range(3):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
        )
        producer.produce(topic_name, b"x")
        assert producer.flush(20) == 0
    ids = [batch.producer_id for batch in batches(broker.log_directory, topic_name)]
    assert len(set(ids)) == 3
    assert min(ids) >= 0


def test_a_producer_without_idempotence_has_no_id(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"x")])
    assert [b.producer_id for b in batches(broker.log_directory, topic_name)] == [-1]
