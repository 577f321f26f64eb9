"""Nothing that was answered is lost by a stop, a kill or a damaged index."""

from collections.abc import Callable

import confluent_kafka
import pytest
from tests.integration.admin import (
    alter_topic,
    create_topic,
    delete_records,
    delete_topic,
    offsets,
    topic_config,
)
from tests.integration.clients import CLIENTS, COMPRESSIONS, Message
from tests.integration.conftest import NewBroker
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

ENDS: dict[str, Callable[[BrokerProcess], int]] = {
    "stop": BrokerProcess.stop,
    "kill": BrokerProcess.kill,
}


@pytest.mark.parametrize("end", ENDS)
def test_records_configs_and_topics_are_there_after_a_restart(
    end: str, new_broker: NewBroker
) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "kept", partitions=3, config={"segment.ms": "7654321"})
    create_topic(broker.bootstrap_servers, "deleted")
    sent = [Message(b"%d" % n, b"key", timestamp=1_700_000_000_000 + n) for n in range(200)]
    for partition, compression in enumerate(COMPRESSIONS[:3]):
        CLIENTS[0].produce(
            broker.bootstrap_servers, "kept", sent, partition=partition, compression=compression
        )
    alter_topic(broker.bootstrap_servers, "kept", max_message_bytes="54321")
    delete_topic(broker.bootstrap_servers, "deleted")

    ENDS[end](broker)
    broker.start()

    for partition in range(3):
        assert offsets(broker.bootstrap_servers, "kept", partition) == (0, 200)
        received = CLIENTS[0].consume(broker.bootstrap_servers, "kept", 200, partition=partition)
        assert [each.message for each in received] == sent
    config = topic_config(broker.bootstrap_servers, "kept")
    assert (config["max.message.bytes"], config["segment.ms"]) == ("54321", "7654321")
    left = {path.name for path in broker.log_directory.iterdir() if path.is_dir()}
    assert "deleted-0" not in left
    again = CLIENTS[0].produce(broker.bootstrap_servers, "kept", sent[:1])
    assert again == [200]


@pytest.mark.parametrize("end", ENDS)
def test_several_lives_of_a_broker_add_up(end: str, new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t", config={"segment.bytes": "1048576"})
    sent: list[Message] = []
    for life in range(3):
        more = [Message(b"%d-%d" % (life, n) * 50, timestamp=1_000_000 + n) for n in range(4000)]
        CLIENTS[0].produce(broker.bootstrap_servers, "t", more)
        sent.extend(more)
        ENDS[end](broker)
        broker.start()

    received = CLIENTS[0].consume(broker.bootstrap_servers, "t", len(sent))
    assert [each.message for each in received] == sent
    assert [each.offset for each in received] == list(range(len(sent)))


def test_missing_and_damaged_indexes_are_made_again(new_broker: NewBroker) -> None:
    broker = new_broker(log_index_interval_bytes="1000")
    create_topic(broker.bootstrap_servers, "t", config={"segment.bytes": "1048576"})
    sent = [Message(b"%05d" % n * 200, timestamp=1_700_000_000_000 + n) for n in range(3000)]
    CLIENTS[0].produce(broker.bootstrap_servers, "t", sent)
    broker.stop()
    directory = broker.log_directory / "t-0"
    indexes = sorted(directory.glob("*.index"))
    assert len(indexes) > 2
    indexes[0].unlink()
    indexes[1].write_bytes(b"\xff" * 80)
    min(directory.glob("*.timeindex")).unlink()

    broker.start()

    received = CLIENTS[0].consume(broker.bootstrap_servers, "t", 3000)
    assert [each.message for each in received] == sent
    (middle,) = CLIENTS[0].consume(broker.bootstrap_servers, "t", 1, offset=777)
    assert middle.value == b"00777" * 200


def test_a_torn_tail_is_cut_and_the_rest_is_served(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t")
    for n in range(20):
        CLIENTS[0].produce(broker.bootstrap_servers, "t", [Message(b"%d" % n)])
    broker.kill()
    segment = broker.log_directory / "t-0" / f"{0:020}.log"
    data = segment.read_bytes()
    segment.write_bytes(data[:-10])

    broker.start()

    assert offsets(broker.bootstrap_servers, "t") == (0, 19)
    received = CLIENTS[0].consume(broker.bootstrap_servers, "t", 19)
    assert [each.value for each in received] == [b"%d" % n for n in range(19)]
    assert CLIENTS[0].produce(broker.bootstrap_servers, "t", [Message(b"again")]) == [19]


def test_deleted_records_stay_deleted(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t")
    CLIENTS[0].produce(broker.bootstrap_servers, "t", [Message(b"x")] * 10)
    delete_records(broker.bootstrap_servers, "t", 4)
    broker.stop()
    broker.start()
    eventually(lambda: offsets(broker.bootstrap_servers, "t") == (4, 10), "the log start offset")


def test_a_producer_goes_on_across_a_restart(new_broker: NewBroker) -> None:
    """An idempotent producer of librdkafka rides out the stop; nothing is lost or doubled."""
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t")
    failed: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
        }
    )

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for n in range(300):
        producer.produce("t", b"%d" % n, partition=0, on_delivery=delivered)
        producer.poll(0.002)
        if n == 100:
            broker.kill()
        if n == 200:
            broker.start()
    assert producer.flush(60) == 0

    assert failed == []
    received = CLIENTS[0].consume(broker.bootstrap_servers, "t", 300)
    assert [each.value for each in received] == [b"%d" % n for n in range(300)]
    assert offsets(broker.bootstrap_servers, "t") == (0, 300)


def test_a_stop_right_after_the_first_answer_is_a_clean_one(new_broker: NewBroker) -> None:
    broker = new_broker()
    for _ in range(3):
        broker.stop(timeout=20)
        assert (broker.log_directory / ".kafka_cleanshutdown").exists(), broker.output()
        broker.start()
