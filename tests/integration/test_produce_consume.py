"""What one client writes, every client reads: keys, values, headers, timestamps, compressions."""

import pytest
from tests.integration.admin import create_topic, offsets
from tests.integration.clients import CLIENTS, COMPRESSIONS, Client, Message
from tools.kafka_peer.broker_process import BrokerProcess

NOON = 1_700_000_000_000  # a moment of November 2023, in milliseconds

VARIED = (
    Message(b"plain", timestamp=NOON),
    Message(b"with a key", b"key", timestamp=NOON + 1),
    Message(None, b"a tombstone", timestamp=NOON + 2),
    Message(b"", b"", timestamp=NOON + 3),
    Message(b"with headers", b"k", (("first", b"1"), ("second", b"\x00\xff")), NOON + 4),
    Message(b"the same header twice", None, (("h", b"a"), ("h", b"b")), NOON + 5),
    Message("ottla čte Kafku".encode(), "klíč".encode(), (("záhlaví", b"x"),), NOON + 7),
    Message(b"earlier than those before it", timestamp=NOON - 1000),
)
NULL_HEADER = Message(b"a header without a value", None, (("h", None), ("empty", b"")), NOON)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_client_reads_what_a_client_wrote(
    client: Client, compression: str, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    many = [Message(b"%07d" % n * 20, b"%d" % n, timestamp=NOON + n) for n in range(300)]
    sent = [*VARIED, *many, *([NULL_HEADER] if client.writes_null_headers else [])]

    given = client.produce(broker.bootstrap_servers, topic_name, sent, compression=compression)

    assert given == list(range(len(sent)))
    for reader in CLIENTS:
        received = reader.consume(broker.bootstrap_servers, topic_name, len(sent))
        assert [each.message for each in received] == sent, reader.name
        assert [each.offset for each in received] == given, reader.name
        assert {each.timestamp_type for each in received} == {0}, reader.name


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_in_order_with_each_kind_of_acks(
    acks: int, client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    sent = [Message(b"%d" % n, timestamp=NOON) for n in range(500)]

    given = client.produce(broker.bootstrap_servers, topic_name, sent, acks=acks)

    if acks:
        assert given == list(range(500))
    received = client.consume(broker.bootstrap_servers, topic_name, 500)
    assert [each.message for each in received] == sent


def test_a_read_may_begin_in_the_middle_of_a_batch(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    sent = [Message(b"%d" % n) for n in range(100)]
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, sent, compression="lz4")

    received = client.consume(broker.bootstrap_servers, topic_name, 33, offset=67)

    assert [each.offset for each in received] == list(range(67, 100))
    assert [each.value for each in received] == [b"%d" % n for n in range(67, 100)]


def test_partitions_are_apart(client: Client, broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=3)
    for partition in range(3):
        sent = [Message(b"%d of %d" % (n, partition)) for n in range(partition + 1)]
        client.produce(broker.bootstrap_servers, topic_name, sent, partition=partition)

    for partition in range(3):
        assert offsets(broker.bootstrap_servers, topic_name, partition) == (0, partition + 1)
        received = client.consume(
            broker.bootstrap_servers, topic_name, partition + 1, partition=partition
        )
        assert [each.value for each in received] == [
            b"%d of %d" % (n, partition) for n in range(partition + 1)
        ]


def test_the_topic_may_ask_for_the_time_of_the_broker(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(
        broker.bootstrap_servers, topic_name, config={"message.timestamp.type": "LogAppendTime"}
    )
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"x", timestamp=NOON)])

    for reader in CLIENTS:
        (received,) = reader.consume(broker.bootstrap_servers, topic_name, 1)
        assert received.timestamp_type == 1, reader.name
        assert received.timestamp > NOON, reader.name
