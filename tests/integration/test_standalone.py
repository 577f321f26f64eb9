"""A node that was formatted standalone needs no word on the replicas of internal topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic
from tests.integration.admin import admin_client
from tools.kafka_peer.broker_process import BrokerProcess, ottla

pytestmark = pytest.mark.timeout(120)
TIER = "rlmm.config.remote.log.metadata.topic.replication.factor"
UNSAID = {
    "offsets.topic.replication.factor": "",
    "transaction.state.log.replication.factor": "",
    "transaction.state.log.min.isr": "",
    TIER: "",
}
TIERED = {"remote.log.storage.system.enable": "true"}


def node(directory: Path, settings: dict[str, str]) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(ottla(), directory, {**UNSAID, **TIERED, **settings})
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[BrokerProcess]:
    yield from node(tmp_path, {})


@pytest.fixture
def told(tmp_path: Path) -> Iterator[BrokerProcess]:
    yield from node(tmp_path, {TIER: "3"})


def test_internal_topics_have_one_replica_and_the_log_says_so_once(alone: BrokerProcess) -> None:
    admin = admin_client(alone.bootstrap_servers)
    tiered = NewTopic("t", 1, 1, config={"remote.storage.enable": "true"})
    admin.create_topics([tiered])["t"].result()
    producer = Producer({"bootstrap.servers": alone.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"value")
    producer.commit_transaction(30)
    settings = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": alone.bootstrap_servers, **settings})
    consumer.subscribe(["t"])
    record = consumer.poll(30)
    assert record is not None
    assert record.value() == b"value"
    consumer.commit(message=record, asynchronous=False)
    consumer.close()
    topics = admin.list_topics(timeout=20).topics
    for name in ("__consumer_offsets", "__transaction_state"):
        assert len(topics[name].partitions[0].replicas) == 1, name
    said = "internal topics have one replica: this node is the whole cluster"
    assert alone.output_file.read_text().count(said) == 1


def test_a_remote_part_that_could_never_be_written_is_refused(told: BrokerProcess) -> None:
    admin = admin_client(told.bootstrap_servers)
    tiered = NewTopic("t", 1, 1, config={"remote.storage.enable": "true"})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([tiered])["t"].result()
    assert refused.value.args[0].name() == "INVALID_CONFIG"
    assert f"{TIER}=1" in refused.value.args[0].str()
