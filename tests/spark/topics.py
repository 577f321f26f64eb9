"""Topics for tests of the pipeline: made, filled, cut and deleted through our own client."""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from confluent_kafka import Producer as Librdkafka
from pyspark.sql.datasource import DataSourceStreamReader
from tests.waiting import eventually

from ottla.client.admin import Admin
from ottla.client.descriptions import NewTopic
from ottla.client.producer import Producer
from ottla.common.topic_partition import TopicPartition

HAS_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Since Spark 4.2; before, ``availableNow`` is one micro-batch, and be it the one of a crash."""

_numbers = count(1)


class Row(NamedTuple):
    """What a test writes and expects to read again."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


def numbered(start: int, end: int, partitions: int = 1) -> list[Row]:
    """Rows whose values are numbers, over partitions in turn."""
    return [
        Row(i % partitions, b"k%d" % i, b"%d" % i, 1_700_000_000_000 + i) for i in range(start, end)
    ]


class Topics:
    """All on one cluster."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = Admin(address)

    def close(self) -> None:
        self.admin.close()

    def make(self, partitions: int = 1, name: str = "", **configs: str) -> str:
        name = name or f"spark-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, named)])
        eventually(lambda: name in self.admin.list_topics())
        return name

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])
        eventually(lambda: name not in self.admin.list_topics())

    def fill(self, topic: str, rows: Sequence[Row], *, codec: str = "none") -> None:
        with Producer(self.address, compression=codec) as producer:
            for row in rows:
                producer.send(
                    topic,
                    row.value,
                    row.key,
                    partition=row.partition,
                    timestamp=row.timestamp,
                    headers=row.headers,
                )
            producer.flush()

    def transaction(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        """One transaction on partition 0, by another's client."""
        producer = Librdkafka(
            {"bootstrap.servers": self.address, "transactional.id": f"{topic}-writer"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    def cut(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self.admin.delete_records({TopicPartition(topic, partition): before})
