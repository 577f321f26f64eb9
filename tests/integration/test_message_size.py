"""Big records up to the limit, and one byte over it: the limit is of the whole batch."""

import contextlib

import confluent_kafka
import kafka.errors
import pytest
from aiokafka import errors as aiokafka_errors
from tests.integration.admin import alter_topic, create_topic, offsets
from tests.integration.clients import CLIENTS, Client, Message
from tests.integration.segments import batches
from tools.kafka_peer.broker_process import BrokerProcess

DEFAULT_LIMIT = 1_048_588
TOO_LARGE = 10
ERRORS = (
    confluent_kafka.KafkaException,
    kafka.errors.KafkaError,
    aiokafka_errors.KafkaError,
)


def error_code(error: Exception) -> int:
    """The broker's error code inside each client's own exception."""
    if isinstance(error, confluent_kafka.KafkaException):
        code: int = error.args[0].code()
        return code
    return int(getattr(error, "errno", -1))


def is_refused(client: Client, broker: BrokerProcess, topic: str, size: int) -> bool:
    """Whether a record of one value of ``size`` bytes is too large, asked with a lax client."""
    try:
        client.produce(
            broker.bootstrap_servers, topic, [Message(b"x" * size)], max_bytes=20_000_000
        )
    except ERRORS as error:
        if error_code(error) != TOO_LARGE:
            raise
        return True
    return False


def test_a_batch_of_exactly_the_limit_is_taken_and_one_byte_more_is_refused(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    assert not is_refused(client, broker, topic_name, 100_000)
    overhead = batches(broker.log_directory, topic_name)[0].size - 100_000
    largest = DEFAULT_LIMIT - overhead

    assert not is_refused(client, broker, topic_name, largest)
    assert is_refused(client, broker, topic_name, largest + 1)

    assert batches(broker.log_directory, topic_name)[-1].size == DEFAULT_LIMIT
    assert offsets(broker.bootstrap_servers, topic_name) == (0, 2)


def test_a_record_of_ten_megabytes_goes_through_where_the_topic_allows_it(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, config={"max.message.bytes": "11000000"})
    big = bytes(range(256)) * 40_000

    client.produce(broker.bootstrap_servers, topic_name, [Message(big)], max_bytes=11_000_000)

    for reader in CLIENTS:
        (received,) = reader.consume(broker.bootstrap_servers, topic_name, 1)
        assert received.value == big, reader.name


def test_the_limit_of_a_topic_changes_at_once(broker: BrokerProcess, topic_name: str) -> None:
    client = CLIENTS[0]
    create_topic(broker.bootstrap_servers, topic_name)
    assert not is_refused(client, broker, topic_name, 5_000)

    alter_topic(broker.bootstrap_servers, topic_name, max_message_bytes="2000")
    assert is_refused(client, broker, topic_name, 5_000)
    assert not is_refused(client, broker, topic_name, 1_000)

    alter_topic(broker.bootstrap_servers, topic_name, max_message_bytes="3000000")
    assert not is_refused(client, broker, topic_name, 2_500_000)


def test_a_small_record_after_a_refused_one_is_taken(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, config={"max.message.bytes": "1000"})
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    outcomes: list[int] = []

    def delivered(error: confluent_kafka.KafkaError | None, _: object) -> None:
        outcomes.append(error.code() if error is not None else 0)

    for size in (10, 5_000, 10):
        with contextlib.suppress(confluent_kafka.KafkaException):
            producer.produce(topic_name, b"x" * size, on_delivery=delivered)
        producer.flush(30)

    assert outcomes == [0, TOO_LARGE, 0]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_the_limit_counts_compressed_bytes(
    codec: str, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, config={"max.message.bytes": "20000"})
    messages = [Message(b"a" * 100_000)]

    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, messages, compression=codec)

    (received,) = CLIENTS[0].consume(broker.bootstrap_servers, topic_name, 1)
    assert received.value == b"a" * 100_000
