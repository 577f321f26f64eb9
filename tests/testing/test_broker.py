"""The embedded broker and the pytest plugin, as other people's tests use them."""

from pathlib import Path

import pytest

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST
from ottla.client.producer import Producer
from ottla.common.topic_partition import TopicPartition
from ottla.testing import Broker


def write(broker: Broker, topic: str, *values: bytes) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()


def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        while len(values) < count:
            for records in consumer.poll().values():
                values += [record.value for record in records]
    return values


def test_data_is_gone_with_a_broker_that_was_given_no_directory() -> None:
    with Broker() as broker:
        write(broker, "t", b"a")
        assert Path(broker.directory).exists()
    assert not Path(broker.directory).exists()


def test_a_broker_goes_on_where_it_stopped_on_the_same_port(tmp_path: Path) -> None:
    broker = Broker(directory=str(tmp_path))
    broker.start()
    address = broker.bootstrap_servers
    write(broker, "t", b"a", b"b")
    broker.stop()
    broker.start()
    assert broker.bootstrap_servers == address
    assert read(broker, "t", 2) == [b"a", b"b"]
    broker.stop()
    assert (tmp_path / "t-0").is_dir()


def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    with Broker(directory=str(tmp_path)), pytest.raises(Exception, match=r"lock|use"):
        Broker(directory=str(tmp_path)).start()


def test_a_broker_that_does_not_start_leaves_nothing_behind() -> None:
    broker = Broker(config={"listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0"})
    with pytest.raises(Exception, match=r"\S"), broker:
        pass
    assert not Path(broker.directory).exists()


def test_a_topic_that_a_test_has_deleted_is_no_trouble(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    with Admin(ottla_broker.bootstrap_servers) as admin:
        admin.delete_topics([ottla_topic])
        assert ottla_topic not in admin.list_topics()


def test_the_plugin_gives_a_broker_and_a_topic_of_ones_own(
    ottla_broker: Broker, ottla_topic: str, kafka_bootstrap_servers: str
) -> None:
    assert kafka_bootstrap_servers == ottla_broker.bootstrap_servers
    write(ottla_broker, ottla_topic, b"x")
    assert read(ottla_broker, ottla_topic, 1) == [b"x"]


@pytest.mark.ottla(config={"num.partitions": "3"})
def test_a_test_may_ask_for_settings(ottla_broker: Broker) -> None:
    write(ottla_broker, "made-by-itself", b"x")
    with Admin(ottla_broker.bootstrap_servers) as admin:
        described = admin.describe_topics(["made-by-itself"])
        assert len(described["made-by-itself"].partitions) == 3
