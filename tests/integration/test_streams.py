"""Kafka Streams' word count, exactly once, with the application and the broker killed midway."""

import random
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.integration.admin import create_topic, eventually
from tests.integration.conftest import NewBroker
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess

pytestmark = pytest.mark.peer

SOURCE, TARGET = "lines", "counts"
PARTITIONS = 2
LINES = 20_000
LINES_AT_ONCE = 50
WORDS = [f"word-{number}" for number in range(40)]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The application, compiled."""
    found = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("WordCount.java")
    libraries = f"{peer.home()}/libs/*"
    subprocess.run(["javac", "-cp", libraries, "-d", str(found), str(source)], check=True)
    return found


class Counts:
    """What a consumer that reads committed records has seen in the topic of counts so far."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.seen: list[tuple[str, int]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "test",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._consumer.subscribe([TARGET])

    def read(self) -> dict[str, int]:
        """The last count of each word."""
        for message in self._consumer.consume(1000, 0.5):
            if message.error() is None:
                (count,) = struct.unpack(">q", message.value() or b"")
                self.seen.append(((message.key() or b"").decode(), count))
        return dict(self.seen)

    def wait_for(self, total: float, *, seconds: float = 60) -> None:
        what = f"{total} words are counted"
        eventually(lambda: sum(self.read().values()) >= total, what, seconds=seconds)

    def close(self) -> None:
        self._consumer.close()


class Feeder(threading.Thread):
    """Writes lines at a steady pace, so that there is work whenever somebody is killed."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        chance = random.Random(5)
        self._lines = [" ".join(chance.choices(WORDS, k=3)) for _ in range(LINES)]
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 2,
            }
        )
        self.expected = Counter(word for line in self._lines for word in line.split())

    def run(self) -> None:
        for number, line in enumerate(self._lines):
            self._producer.produce(SOURCE, line, partition=number % PARTITIONS)
            if number % LINES_AT_ONCE == 0:
                time.sleep(0.05)
        self._producer.flush()


def starter(
    broker: BrokerProcess, classes: Path, directory: Path
) -> Callable[[], "subprocess.Popen[bytes]"]:
    state = str(directory / "state")
    command = peer.java(
        "WordCount", broker.bootstrap_servers, SOURCE, TARGET, state,
        flags=peer.SHORT_LIVED, logging="tools-log4j2.yaml",
    )  # fmt: skip
    libraries = command.index("-cp") + 1
    command[libraries] += f":{classes}"

    def start() -> "subprocess.Popen[bytes]":
        with (directory / "streams.log").open("ab") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, env=peer.environment(), cwd=directory
            )

    return start


@pytest.mark.timeout(300)
def test_the_word_count_is_exact_although_all_are_killed(
    new_broker: NewBroker, classes: Path, tmp_path: Path
) -> None:
    broker = new_broker(group_min_session_timeout_ms="1000")
    for topic in (SOURCE, TARGET):
        create_topic(broker.bootstrap_servers, topic, partitions=PARTITIONS)
    feeder = Feeder(broker)
    expected, whole = feeder.expected, feeder.expected.total()
    start = starter(broker, classes, tmp_path)
    counts = Counts(broker)
    application = start()
    feeder.start()
    try:
        for share, kill_broker in ((0.1, False), (0.3, True), (0.5, False)):
            counts.wait_for(whole * share)
            assert counts.read() != expected, "too fast: all was counted before the kill"
            if kill_broker:
                broker.kill()
                broker.start()
                continue
            application.kill()
            application.wait()
            application = start()
        counts.wait_for(whole, seconds=90)
        time.sleep(2)  # whatever would be counted twice comes now
        assert counts.read() == expected
        for word in expected:
            given = [count for key, count in counts.seen if key == word]
            assert given == sorted(set(given)), f"a count of {word} came twice or went back"
    finally:
        application.kill()
        application.wait()
        counts.close()
        feeder.join(30)
