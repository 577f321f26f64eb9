"""Transactions of clients that others wrote: seen whole or not at all, and copied exactly once.

A copy reads from one topic, writes to another and commits its offsets in the same transaction. It
is killed again and again, as is the broker: nothing is lost, nothing comes twice.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.integration.admin import create_topic
from tests.integration.conftest import NewBroker
from tools.kafka_peer.broker_process import BrokerProcess
from tools.kafka_peer.peer import run_tool, tool_command

TIMEOUT = 30


def read_committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """All committed values, at least ``count``, unless that takes too long."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
        }
    )
    reader.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
            quiet_since = time.monotonic()
        elif len(values) >= count and time.monotonic() - quiet_since > 1:
            break
    reader.close()
    return values


def test_confluent_kafka_commits_and_aborts(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic_name}
    )
    producer.init_transactions(TIMEOUT)
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic_name, b"%d" % number, partition=partition)
        if number % 3:
            producer.commit_transaction(TIMEOUT)
        else:
            producer.flush(TIMEOUT)
            producer.abort_transaction(TIMEOUT)
    committed = [b"%d" % number for number in range(10) if number % 3]
    seen = read_committed(broker.bootstrap_servers, topic_name, 2 * len(committed))
    assert sorted(seen) == sorted(2 * committed)


def test_confluent_kafka_is_fenced_by_its_successor(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic_name}
    first = Producer(settings)
    first.init_transactions(TIMEOUT)
    first.begin_transaction()
    first.produce(topic_name, b"lost")
    first.flush(TIMEOUT)
    second = Producer(settings)
    second.init_transactions(TIMEOUT)
    second.begin_transaction()
    second.produce(topic_name, b"kept")
    second.commit_transaction(TIMEOUT)
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        first.commit_transaction(TIMEOUT)
    assert read_committed(broker.bootstrap_servers, topic_name, 1) == [b"kept"]


def test_aiokafka_commits_and_aborts(broker: BrokerProcess, topic_name: str) -> None:
    from aiokafka import AIOKafkaProducer

    create_topic(broker.bootstrap_servers, topic_name)

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=topic_name
        )
        await producer.start()
        try:
            for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
                await producer.begin_transaction()
                await producer.send_and_wait(topic_name, value)
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(produce())
    assert read_committed(broker.bootstrap_servers, topic_name, 2) == [b"a", b"c"]


def test_kafka_python_commits_and_aborts(broker: BrokerProcess, topic_name: str) -> None:
    from kafka import KafkaProducer

    create_topic(broker.bootstrap_servers, topic_name)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=topic_name
    )
    producer.init_transactions()
    for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.send(topic_name, value).get(TIMEOUT)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert read_committed(broker.bootstrap_servers, topic_name, 2) == [b"a", b"c"]


# Exactly once

COPIER = """
import sys
from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, source, target, group = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group,
    "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "isolation.level": "read_committed", "session.timeout.ms": 6000})
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
producer.init_transactions(60)
consumer.subscribe([source])
while True:
    messages = [m for m in consumer.consume(50, 0.5) if m.error() is None]
    if not messages:
        continue
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, message.value(), partition=message.partition())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    print(len(messages), flush=True)
"""


class Copy:
    """The program, which may be killed and started again."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._words = [sys.executable, "-c", COPIER, bootstrap, source, target, f"{source}-copy"]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._words, stdout=subprocess.PIPE, text=True)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def copies() -> Iterator[list[Copy]]:
    made: list[Copy] = []
    yield made
    for each in made:
        if each.process is not None and each.process.poll() is None:
            each.kill()


def fill(bootstrap: str, topic: str, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    values = [b"%d" % number for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    producer.flush(TIMEOUT)
    return values


@pytest.mark.slow
def test_a_copy_that_is_killed_again_and_again_copies_exactly_once(
    new_broker: NewBroker, topic_name: str, copies: list[Copy]
) -> None:
    broker = new_broker(group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="4")
    chance = random.Random(5)
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    for topic in (source, target):
        create_topic(broker.bootstrap_servers, topic, partitions=2)
    values = fill(broker.bootstrap_servers, source, 3_000)
    copy = Copy(broker.bootstrap_servers, source, target)
    copies.append(copy)
    for life in range(6):
        copy.start()
        time.sleep(chance.uniform(1.0, 4.0))
        copy.kill()
        if life % 2:
            broker.kill()
            broker.start()
    copy.start()
    seen = read_committed(broker.bootstrap_servers, target, len(values))
    assert len(seen) == len(set(seen)), "something came twice"
    assert set(seen) == set(values)


@pytest.mark.peer
def test_apaches_message_copier_that_is_killed_copies_exactly_once(
    new_broker: NewBroker, topic_name: str
) -> None:
    """The Java client, in version 2 of transactions; the broker is killed too."""
    broker = new_broker(group_initial_rebalance_delay_ms="0")
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    for topic in (source, target):
        create_topic(broker.bootstrap_servers, topic, partitions=2)
    values = fill(broker.bootstrap_servers, source, 20_000)
    words = tool_command(
        "kafka-transactional-message-copier",
        "--broker-list", broker.bootstrap_servers, "--transactional-id", "copier",
        "--transaction-size", "100", "--input-topic", source, "--input-partition", "-1",
        "--output-topic", target, "--max-messages", "-1", "--consumer-group", "copier-group",
        "--group-mode", "--use-group-metadata",
    )  # fmt: skip
    for life in range(4):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        time.sleep(4 + life)
        if life == 2:
            broker.kill()
            broker.start()
            time.sleep(3)
        process.kill()
        process.communicate()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        seen = read_committed(broker.bootstrap_servers, target, len(values))
    finally:
        process.kill()
        process.communicate()
    assert len(seen) == len(set(seen)), "something came twice"
    assert set(seen) == set(values)


@pytest.mark.peer
def test_apaches_tools_show_transactions(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic_name}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic_name, b"v")
    producer.flush(TIMEOUT)

    def tool(*words: str) -> str:
        done = run_tool(
            "kafka-transactions", "--bootstrap-server", broker.bootstrap_servers, *words
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = [line.split() for line in tool("list").splitlines()]
    assert [line[3] for line in listed if line[0] == topic_name] == ["Ongoing"]
    described = tool("describe", "--transactional-id", topic_name)
    assert f"{topic_name}-0" in described
    producers = tool("describe-producers", "--topic", topic_name, "--partition", "0")
    assert producers.splitlines()[1].split()[-1] == "0"
    tool("abort", "--topic", topic_name, "--partition", "0", "--start-offset", "0")
    producers = tool("describe-producers", "--topic", topic_name, "--partition", "0")
    assert producers.splitlines()[1].split()[-1] == "None"
    producer.abort_transaction(TIMEOUT)


@pytest.mark.peer
def test_apaches_dump_log_reads_the_transaction_log(new_broker: NewBroker, topic_name: str) -> None:
    broker = new_broker(transaction_state_log_num_partitions="1")
    create_topic(broker.bootstrap_servers, topic_name)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic_name}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic_name, b"v")
    producer.commit_transaction(TIMEOUT)
    broker.stop()
    (log,) = broker.log_directory.glob("__transaction_state-0/*.log")
    done = run_tool("kafka-dump-log", "--files", str(log), "--transaction-log-decoder")
    states = [
        json.loads(line.partition(" payload: ")[2])["data"]["transactionStatus"]
        for line in done.stdout.splitlines()
        if " payload: " in line
    ]
    assert states == [0, 1, 2, 4]
