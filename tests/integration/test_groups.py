"""Consumers in groups by the classic protocol: subscribe, commit, rebalance, resume.

They run where the broker says that it serves JoinGroup; a broker that does not is not asked.
"""

import asyncio
import socket
import struct
import threading
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from tests.integration.admin import create_topic
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import NewBroker
from tests.waiting import eventually
from tools.kafka_peer.broker_process import API_VERSIONS_V0, BrokerProcess

JOIN_GROUP = 11
COUNT = 60


def served_apis(port: int) -> set[int]:
    """The API keys that a broker advertises."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(API_VERSIONS_V0)
        (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        answer = connection.recv(length, socket.MSG_WAITALL)
    (count,) = struct.unpack_from(">i", answer, 6)
    return {struct.unpack_from(">h", answer, 10 + 6 * n)[0] for n in range(count)}


@pytest.fixture(autouse=True)
def _groups_are_served(broker: BrokerProcess) -> None:
    assert JOIN_GROUP in served_apis(broker.port)


def fill(broker: BrokerProcess, topic: str, *, partitions: int = 3, start: int = 0) -> None:
    each = COUNT // partitions
    for partition in range(partitions):
        first = start + partition * each
        messages = [Message(b"%d" % n) for n in range(first, first + each)]
        CLIENTS[0].produce(broker.bootstrap_servers, topic, messages, partition=partition)


def confluent_consumer(broker: BrokerProcess, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
        }
    )


def read_values(consumer: confluent_kafka.Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    end = time.monotonic() + 40
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


ALL = {b"%d" % n for n in range(COUNT)}


def test_librdkafka_subscribes_commits_and_resumes(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=3)
    fill(broker, topic_name)
    first = confluent_consumer(broker, topic_name)
    first.subscribe([topic_name])
    assert set(read_values(first, COUNT)) == ALL
    first.commit(asynchronous=False)
    first.close()
    fill(broker, topic_name, start=COUNT)

    second = confluent_consumer(broker, topic_name)
    second.subscribe([topic_name])
    assert set(read_values(second, COUNT)) == {b"%d" % n for n in range(COUNT, 2 * COUNT)}
    second.close()


def test_two_members_share_the_partitions_and_one_takes_over(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=4)
    members = [confluent_consumer(broker, topic_name) for _ in range(2)]
    for member in members:
        member.subscribe([topic_name])

    def assigned() -> list[int]:
        for member in members:
            member.poll(0.05)
        return sorted(len(member.assignment()) for member in members)

    eventually(lambda: assigned() == [2, 2], "two partitions for each", seconds=40)
    members.pop().close()
    eventually(lambda: assigned() == [4], "four for the one that stays", seconds=40)
    members.pop().close()


def test_kafka_python_subscribes_commits_and_resumes(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=3)
    fill(broker, topic_name)

    def read_all() -> set[bytes | None]:
        consumer = kafka.KafkaConsumer(
            topic_name,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic_name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=30_000,
            heartbeat_interval_ms=300,
        )
        try:
            values = {next(consumer).value for _ in range(COUNT)}
            consumer.commit()
            return values
        finally:
            consumer.close()

    assert read_all() == ALL
    fill(broker, topic_name, start=COUNT)
    assert read_all() == {b"%d" % n for n in range(COUNT, 2 * COUNT)}


def test_aiokafka_subscribes_commits_and_resumes(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=3)
    fill(broker, topic_name)

    async def read_all() -> set[bytes | None]:
        async with aiokafka.AIOKafkaConsumer(
            topic_name,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic_name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            values = {(await consumer.getone()).value for _ in range(COUNT)}
            await consumer.commit()
            return values

    assert asyncio.run(asyncio.wait_for(read_all(), 40)) == ALL
    fill(broker, topic_name, start=COUNT)
    again = asyncio.run(asyncio.wait_for(read_all(), 40))
    assert again == {b"%d" % n for n in range(COUNT, 2 * COUNT)}


def test_commits_survive_a_restart(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "t", partitions=3)
    fill(broker, "t")
    consumer = confluent_consumer(broker, "g")
    consumer.subscribe(["t"])
    read_values(consumer, COUNT)
    consumer.commit(asynchronous=False)
    consumer.close()

    broker.stop()
    broker.start()

    asked = [confluent_kafka.TopicPartition("t", n) for n in range(3)]
    reader = confluent_consumer(broker, "g")
    committed = reader.committed(asked, 30)
    reader.close()
    assert [each.offset for each in committed] == [COUNT // 3] * 3


def test_a_member_that_says_nothing_loses_its_partitions(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    silent = confluent_consumer(broker, topic_name)
    silent.subscribe([topic_name])
    eventually(
        lambda: silent.poll(0.05) is None and len(silent.assignment()) == 2, "a first member"
    )
    heir = confluent_consumer(broker, topic_name)
    heir.subscribe([topic_name])

    closing = threading.Thread(target=silent.close)
    closing.start()
    eventually(
        lambda: heir.poll(0.05) is None and len(heir.assignment()) == 2, "an heir", seconds=40
    )
    closing.join()
    heir.close()
