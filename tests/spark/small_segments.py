"""A broker with a remote tier, and topics of small segments on it."""

from pathlib import Path

from confluent_kafka import Producer as Librdkafka
from tests.spark.topics import Row, Topics

from ottla.testing.broker import Broker

SEGMENT = 3_000
BROKER = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
}


class Tiered(Broker):
    """Its remote store is a directory."""

    def __init__(self, store: Path) -> None:
        super().__init__(config={**BROKER, "ottla.remote.store.url": f"file://{store}"})
        self.store = store


def made(topics: Topics, **configs: str) -> str:
    """A topic of small segments, which keeps what is old."""
    small = {
        "internal_segment_bytes": str(SEGMENT),
        "index_interval_bytes": "500",
        "retention_ms": "-1",
    }
    return topics.make(1, "", **{**small, **configs})


def fill(topics: Topics, topic: str, rows: list[Row], codec: str = "none") -> None:
    """In batches of a few records."""
    for start in range(0, len(rows), 20):
        topics.fill(topic, rows[start : start + 20], codec=codec)


class Writer:
    """A transactional producer, by another's client, which writes small batches."""

    def __init__(self, topics: Topics, topic: str, name: str) -> None:
        self._topic = topic
        self._producer = Librdkafka(
            {"bootstrap.servers": topics.address, "transactional.id": f"{topic}-{name}"}
        )
        self._producer.init_transactions(30)

    def write(self, values: list[bytes]) -> None:
        for start in range(0, len(values), 10):
            for value in values[start : start + 10]:
                self._producer.produce(self._topic, value + bytes(90), partition=0)
            self._producer.flush(30)

    def transaction(self, values: list[bytes], *, commit: bool) -> None:
        self._producer.begin_transaction()
        self.write(values)
        self.end(commit=commit)

    def keyed(self, rows: list[tuple[bytes, bytes]], *, commit: bool) -> None:
        self.begin_keyed(rows)
        self.end(commit=commit)

    def begin_keyed(self, rows: list[tuple[bytes, bytes]], *, begin: bool = True) -> None:
        if begin:
            self._producer.begin_transaction()
        for key, value in rows:
            self._producer.produce(self._topic, value, key, partition=0)
        self._producer.flush(30)

    def begin(self, values: list[bytes]) -> None:
        self._producer.begin_transaction()
        self.write(values)

    def end(self, *, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction(30)
        else:
            self._producer.abort_transaction(30)


def log_of(broker: Broker, topic: str) -> Path:
    (found,) = Path(broker.directory).glob(f"**/{topic}-0/partition.metadata")
    return found.parent
