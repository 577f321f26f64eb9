"""Real disks and real clients: bits that flip, logs that move under load, a disk that is full."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.integration.admin import create_topic, offsets
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import NewBroker
from tools.kafka_peer.broker_process import BrokerProcess

from ottla.client.connection import Address, Connection
from ottla.common.errors import ErrorCode
from ottla.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.generated.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

SECONDS = 30.0
TOPIC = "moving"
RECORDS = 4000


@contextlib.contextmanager
def connection(broker: BrokerProcess) -> Iterator[Connection]:
    opened = Connection(
        Address("127.0.0.1", broker.port),
        client_id="test",
        timeout_seconds=SECONDS,
        response_size_max=1 << 20,
    )
    try:
        yield opened
    finally:
        opened.close()


def move(broker: BrokerProcess, directory: Path, topic: str = TOPIC) -> int:
    """Ask for a move; the error code."""
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=str(directory), topics=topics)]
    )
    with connection(broker) as asked:
        answer = asked.ask(request, AlterReplicaLogDirsResponse, 2, SECONDS)
    return answer.results[0].partitions[0].error_code


def described(broker: BrokerProcess) -> dict[str, tuple[int, list[tuple[str, bool]]]]:
    """Of each directory its error code, and the partitions there, with whether they are future."""
    with connection(broker) as asked:
        answer = asked.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4, SECONDS)
    return {
        result.log_dir: (
            result.error_code,
            [
                (f"{topic.name}-{each.partition_index}", each.is_future_key)
                for topic in result.topics
                for each in topic.partitions
            ],
        )
        for result in answer.results
    }


def wait_for_move(broker: BrokerProcess, directory: Path, topic: str = TOPIC) -> None:
    deadline = time.monotonic() + SECONDS
    while (f"{topic}-0", False) not in described(broker)[str(directory)][1]:
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.01)


class Load:
    """A producer of numbered records with acks=all, in a thread, until it is stopped."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.failures: list[str] = []
        self._count = count
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in range(self._count):
            value = b"%06d" % number * 20
            self._producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
            if number % 20 == 0:
                time.sleep(0.005)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.offset()] = message.value()  # type: ignore[attr-defined]

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> dict[int, bytes]:
        self._thread.join()
        assert self.failures == []
        assert len(self.acknowledged) == self._count
        return self.acknowledged


def test_a_log_moves_back_and_forth_under_load_and_across_a_kill(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    broker = new_broker(log_dirs=",".join(map(str, directories)))
    create_topic(broker.bootstrap_servers, TOPIC, config={"segment.bytes": "1048576"})
    load = Load(broker, RECORDS)
    moves, was_killed = 0, False
    while load.is_running or moves < 8:
        target = directories[moves % 2]
        assert move(broker, target) == ErrorCode.NONE
        if moves == 5 and not was_killed:
            was_killed = True
            broker.kill()
            broker.start()
            continue
        wait_for_move(broker, target)
        moves += 1
    written = load.finish()
    received = CLIENTS[0].consume(broker.bootstrap_servers, TOPIC, len(written))
    assert {each.offset: each.value for each in received} == written
    assert [each.offset for each in received] == list(range(RECORDS))
    broker.stop()
    broker.start()
    received = CLIENTS[0].consume(broker.bootstrap_servers, TOPIC, len(written))
    assert {each.offset: each.value for each in received} == written


def flip(path: Path, position: int, bit: int = 3) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def test_bits_that_flip_while_it_runs_are_refused_and_the_rest_is_read(
    new_broker: NewBroker,
) -> None:
    broker = new_broker(ottla_log_verify="always")
    create_topic(broker.bootstrap_servers, "t", config={"segment.bytes": "1048576"})
    sent = [b"%05d" % number * 200 for number in range(3000)]
    for start in range(0, 3000, 10):
        messages = [Message(value) for value in sent[start : start + 10]]
        CLIENTS[0].produce(broker.bootstrap_servers, "t", messages)
    directory = broker.log_directory / "t-0"
    closed = sorted(directory.glob("*.log"))[:-1]
    assert len(closed) == 2
    for segment in closed:
        flip(segment, segment.stat().st_size // 2)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
            "check.crcs": False,
            "auto.offset.reset": "error",
        }
    )
    found: dict[int, bytes | None] = {}
    refused: list[int] = []
    offset, deadline = 0, time.monotonic() + 2 * SECONDS
    consumer.assign([TopicPartition("t", 0, 0)])
    while offset < 3000:
        assert time.monotonic() < deadline, (offset, refused, broker.output())
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            offset = message.offset() or 0
            found[offset] = message.value()
            offset += 1
        elif error.code() in (KafkaError.INVALID_MSG, KafkaError._BAD_MSG):
            refused.append(offset)
            offset += 1
            consumer.seek(TopicPartition("t", 0, offset))
    consumer.close()
    assert all(sent[offset] == value for offset, value in found.items())
    assert len(found) + len(refused) == 3000
    assert 2 <= len(refused) <= 20
    assert broker.output(last=1 << 20).count("a segment is damaged") == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB, where this process may mount one."""
    where = tmp_path / "small"
    where.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def send_until_refused(broker: BrokerProcess, topic: str) -> tuple[list[bytes], KafkaError]:
    """Fill a partition; what was acknowledged, and what ended it."""
    acknowledged: list[bytes] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is None:
            acknowledged.append(message.value())  # type: ignore[attr-defined]
        else:
            errors.append(error)

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "retries": 0}
    )
    number = 0
    while not errors and number < 2000:
        producer.produce(topic, b"%06d" % number * 2000, partition=0, on_delivery=delivered)
        producer.flush(SECONDS)
        number += 1
    return acknowledged, errors[0]


def test_a_full_disk_goes_offline_and_has_lost_nothing_when_it_is_back(
    new_broker: NewBroker, small_disk: Path, tmp_path: Path
) -> None:
    large, small = tmp_path / "large", small_disk / "data"
    broker = new_broker(log_dirs=f"{large},{small}", metadata_log_dir=str(large))
    for topic in ("full", "other"):
        create_topic(broker.bootstrap_servers, topic, config={"segment.bytes": "2097152"})
    for topic, directory in (("full", small), ("other", large)):
        assert move(broker, directory, topic) == ErrorCode.NONE
        wait_for_move(broker, directory, topic)
    acknowledged, error = send_until_refused(broker, "full")
    assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
    assert 100 < len(acknowledged) < 700
    where = described(broker)
    assert where[str(small)] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert where[str(large)][0] == ErrorCode.NONE
    CLIENTS[0].produce(broker.bootstrap_servers, "other", [Message(b"served")])
    broker.stop()
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    broker.start()
    received = CLIENTS[0].consume(broker.bootstrap_servers, "full", len(acknowledged))
    assert [each.value for each in received] == acknowledged
    begin, end = offsets(broker.bootstrap_servers, "full")
    assert (begin, end) == (0, len(acknowledged))
    assert CLIENTS[0].produce(broker.bootstrap_servers, "full", [Message(b"again")]) == [end]
