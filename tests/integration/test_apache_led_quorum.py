"""One of our brokers in a cluster that Apache Kafka 4.3.1 controls.

It observes the quorum that Apache leads, replays its log, registers, is unfenced, and answers; it
leads partitions that Apache's broker follows, and follows those that Apache's leads.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, free_ports, ottla
from tools.kafka_peer.peer import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
OURS, THEIRS = 7, 1
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


class OurBroker:
    """Node 7: a broker that knows one controller's address and nothing else."""

    def __init__(self, directory: Path, kafka: BrokerProcess) -> None:
        directory.mkdir()
        (port,) = free_ports(1)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.data = directory / "data"
        self._output = directory / "output.log"
        self._program = ottla()
        self._properties = directory / "server.properties"
        lines = {
            "process.roles": "broker",
            "node.id": str(OURS),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{kafka.controller_port}",
            "log.dirs": str(self.data),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        words = [*self._program.format_words, "-t", kafka.cluster_id, "-c", str(self._properties)]
        environment = dict(self._program.environment)
        subprocess.run(words, check=True, env=environment, capture_output=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*self._program.serve_words, str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self._program.environment),
            )
        eventually(lambda: "serving node=" in self._output.read_text(), "our broker serves")

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[BrokerProcess]:
    kafka = BrokerProcess(apache_kafka(heap=("-Xmx512M",)), tmp_path / "kafka", {})
    kafka.start()
    yield kafka
    kafka.kill()


@pytest.fixture
def ours(tmp_path: Path, kafka: BrokerProcess) -> Iterator[OurBroker]:
    ours = OurBroker(tmp_path / "ours", kafka)
    yield ours
    ours.kill()


def tool(*words: str) -> str:
    done = run_tool(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def endpoints(bootstrap_servers: str) -> dict[int, str]:
    words = ("list-endpoints", "--include-fenced-brokers", "--bootstrap-server", bootstrap_servers)
    rows = [line.split() for line in tool("kafka-cluster", *words).splitlines()]
    return {int(row[0]): row[4] for row in rows if row and row[0].isdigit()}


def test_it_is_a_broker_like_any_other(kafka: BrokerProcess, ours: OurBroker) -> None:
    ours.start()
    for asked in (kafka.bootstrap_servers, ours.bootstrap_servers):
        assert endpoints(asked) == {THEIRS: "unfenced", OURS: "unfenced"}
    status = tool(
        "kafka-metadata-quorum",
        "--bootstrap-server",
        ours.bootstrap_servers,
        "describe",
        "--status",
    )
    assert re.search(rf"LeaderId:\s+{THEIRS}\b", status)
    assert re.search(rf'CurrentObservers:.*"id": {OURS}\b', status)
    theirs = (kafka.log_directory / SEGMENT).read_bytes()
    assert theirs.startswith((ours.data / SEGMENT).read_bytes()[:1000])
    assert ours.stop() == 0
    eventually(lambda: endpoints(kafka.bootstrap_servers)[OURS] == "fenced", "it is fenced")


def test_it_creates_a_topic_by_their_controller_and_leads_it(
    kafka: BrokerProcess, ours: OurBroker
) -> None:
    ours.start()
    words = ("--create", "--topic", "t", "--replica-assignment", str(OURS))
    tool("kafka-topics", "--bootstrap-server", ours.bootstrap_servers, *words)
    described = ("kafka-topics", "--bootstrap-server", kafka.bootstrap_servers, "--describe")
    assert re.search(rf"Topic: t\tPartition: 0\tLeader: {OURS}\t", tool(*described))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for number in range(100):
        producer.produce("t", f"{number}".encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    read = [message.value() for message in consumer.consume(100, timeout=30)]
    consumer.close()
    assert read == [f"{number}".encode() for number in range(100)]


def test_replicas_of_ours_and_of_theirs_are_equal_byte_for_byte(
    kafka: BrokerProcess, ours: OurBroker
) -> None:
    ours.start()
    for topic, replicas in (("led-by-us", f"{OURS}:{THEIRS}"), ("led-by-them", f"{THEIRS}:{OURS}")):
        words = ("--create", "--topic", topic, "--replica-assignment", replicas)
        tool("kafka-topics", "--bootstrap-server", ours.bootstrap_servers, *words)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for number in range(1_000):
        producer.produce("led-by-us", f"{number}".encode())
        producer.produce("led-by-them", f"{number}".encode())
    assert producer.flush(60) == 0
    for topic in ("led-by-us", "led-by-them"):
        segment = f"{topic}-0/00000000000000000000.log"
        written = (ours.data / segment).read_bytes()
        assert len(written) > 1_000
        assert (kafka.log_directory / segment).read_bytes() == written
    described = tool("kafka-topics", "--bootstrap-server", ours.bootstrap_servers, "--describe")
    isr = {frozenset(each.split(",")) for each in re.findall(r"Isr: (\S+)", described)}
    assert isr == {frozenset({str(OURS), str(THEIRS)})}
