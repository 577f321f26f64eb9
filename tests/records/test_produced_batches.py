"""The table of cases over the wire: to our own broker, and to Apache Kafka, whose word counts."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest
from fastcrc.crc32 import iscsi
from tests.records.hostile_batches import CASES, TOPIC_CONFIGS, Case
from tests.records.raw_batches import NOW
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.records.batch import HEADER, HEADER_SIZE
from ottla.records.builder import build_batch
from ottla.records.compression import NAMES
from ottla.records.record import Record
from ottla.testing.broker import Broker

PRODUCE, CREATE_TOPICS = 0, 19


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


class Wire:
    """One connection, written by hand: nothing of ours stands between the test and the broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        self.sent = 0

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        self.sent += 1
        frame = struct.pack(">hhi", api_key, version, self.sent) + text("test") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        assert struct.unpack_from(">i", answer) == (self.sent,)
        return answer[4:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker hung up"
            data += part
        return data

    def create_topic(self, name: str, configs: dict[str, str]) -> None:
        body = struct.pack(">i", 1) + text(name) + struct.pack(">ihi", 1, 1, 0)
        body += struct.pack(">i", len(configs))
        body += b"".join(text(key) + text(value) for key, value in configs.items())
        answer = self.ask(CREATE_TOPICS, 3, body + struct.pack(">i?", 10_000, False))
        assert struct.unpack_from(">h", answer, 10 + len(name)) == (0,)

    def produce(self, topic: str, batch: bytes) -> int:
        """The error code of a Produce request of version 8."""
        body = text(None) + struct.pack(">hii", 1, 10_000, 1) + text(topic)
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
        answer = self.ask(PRODUCE, 8, body)
        (code,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
        return int(code)


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.peer)])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | BrokerProcess]:
    one: Broker | BrokerProcess
    if request.param == "ottla":
        one = Broker()
    else:
        one = BrokerProcess(apache_kafka(heap=("-Xmx512M",)), tmp_path_factory.mktemp("kafka"))
    with one:
        wire = Wire(one.bootstrap_servers)
        for name, configs in TOPIC_CONFIGS.items():
            wire.create_topic(name, configs)
        wire.create_topic("codecs", {})
        wire.socket.close()
        yield one


@pytest.fixture
def wire(broker: Broker | BrokerProcess) -> Iterator[Wire]:
    connection = Wire(broker.bootstrap_servers)
    yield connection
    connection.socket.close()


def of_today(batch: bytes) -> bytes:
    """The case with the broker's time in place of ours, and a checksum as right as it was."""
    if len(batch) < HEADER_SIZE:
        return batch
    fields = list(HEADER.unpack_from(batch))
    end = fields[1] + 12
    was_right = iscsi(batch[21:end]) == fields[4]
    now = int(time.time() * 1000)
    for timestamp in (7, 8):
        if fields[timestamp] == NOW:
            fields[timestamp] = now
    moved = bytearray(HEADER.pack(*fields) + batch[HEADER_SIZE:])
    if was_right:
        struct.pack_into(">I", moved, 17, iscsi(bytes(moved[21:end])))
    return bytes(moved)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broker_answers_as_the_table_says(
    case: Case, wire: Wire, broker: Broker | BrokerProcess
) -> None:
    expected = case.expected if isinstance(broker, Broker) else case.kafka
    assert wire.produce(case.topic, of_today(case.batch)) == expected


@pytest.mark.peer
def test_the_java_consumer_reads_what_we_compress(
    wire: Wire, broker: Broker | BrokerProcess
) -> None:
    """Each codec at several levels, each batch larger than one block of the codec."""
    levels = {1: (None, 1, 9), 2: (None,), 3: (None, 1, 9, 17), 4: (None, -5, 22), 0: (None,)}
    wanted = []
    for codec, choices in levels.items():
        for level in choices:
            values = [f"{NAMES[codec]}-{level}-{index}-" + "ab" * 3000 for index in range(40)]
            wanted += values
            records = [Record(value=value.encode(), timestamp=NOW) for value in values]
            batch = build_batch(records, codec=codec, level=level)
            assert wire.produce("codecs", batch) == 0
    done = peer.run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "codecs"),
        *("--from-beginning", "--max-messages", str(len(wanted)), "--timeout-ms", "30000"),
    )
    assert done.stdout.splitlines() == wanted, done.stderr
