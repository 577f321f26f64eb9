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
from tests.integration.admin import create_topic
from tests.integration.conftest import NewBroker
from tests.waiting import eventually
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess

pytestmark = pytest.mark.peer

SOURCE, TARGET = "lines", "counts"
PARTITIONS = 2
LINES_AT_ONCE = 50
WORDS_BETWEEN_KILLS = 6_000
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

    def wait_for(self, total: int, *, seconds: float = 60) -> None:
        what = f"{total} words are counted"
        eventually(lambda: sum(self.read().values()) >= total, what, seconds=seconds)

    def close(self) -> None:
        self._consumer.close()


class Feeder(threading.Thread):
    """Writes lines at a steady pace until it is told that it is enough, and counts their words."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self.expected: Counter[str] = Counter()
        self.enough = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        chance = random.Random(5)
        while not self.enough.wait(0.05):
            for number in range(LINES_AT_ONCE):
                words = chance.choices(WORDS, k=3)
                self._producer.produce(SOURCE, " ".join(words), partition=number % PARTITIONS)
                self.expected.update(words)
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
    feeder, counts = Feeder(broker), Counts(broker)
    start = starter(broker, classes, tmp_path)
    application = start()
    feeder.start()
    try:
        for victim in ("application", "broker", "application"):
            counts.wait_for(sum(counts.read().values()) + WORDS_BETWEEN_KILLS)
            if victim == "broker":
                broker.kill()
                broker.start()
            else:
                application.kill()
                application.wait()
                application = start()
        counts.wait_for(sum(counts.read().values()) + WORDS_BETWEEN_KILLS)
        feeder.enough.set()
        feeder.join(60)
        counts.wait_for(feeder.expected.total(), seconds=90)
        time.sleep(2)  # whatever would be counted twice comes now
        assert counts.read() == feeder.expected
        for word in feeder.expected:
            given = [count for key, count in counts.seen if key == word]
            assert given == sorted(set(given)), f"a count of {word} came twice or went back"
    finally:
        feeder.enough.set()
        application.kill()
        application.wait()
        counts.close()
