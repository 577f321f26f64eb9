"""The other lane: the unchanged spark-sql-kafka in Spark's real-time mode, from topic to topic.

Spark takes no Python source in this mode; what its own connector needs of a broker is here. One
record after another goes from a producer through Spark to a consumer, and how long that takes is
printed (``pytest -m peer tests/spark/test_real_time_peer.py``).
"""

from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.topics import Topics
from tools.kafka_peer.spark_connector import jars

from ottla.client.system_time import Deadline, SystemTime

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not jars(), reason="spark-sql-kafka is not brought: make peer"),
    pytest.mark.skipif(
        "realTime" not in DataStreamWriter.trigger.__annotations__,
        reason="this Spark has no real-time mode in Python",
    ),
]
WARM_UP = 30
MEASURED = 200
SECONDS_MAX = 120


class Echo:
    """Writes to one topic and waits for the answer in another."""

    def __init__(self, address: str, source: str, target: str) -> None:
        self._source = source
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"echo-{target}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([target])
        self._clock = SystemTime()
        self.answers: list[bytes | None] = []

    def milliseconds(self, value: bytes) -> float:
        """From ``produce`` to the answer."""
        begin = self._clock.monotonic()
        self._producer.produce(self._source, value, key=b"k")
        self._producer.poll(0)
        deadline = Deadline(self._clock, SECONDS_MAX * 1000)
        while not deadline.passed:
            message = self._consumer.poll(1)
            if message is not None and message.error() is None:
                self.answers.append(message.value())
                return (self._clock.monotonic() - begin) * 1000
        raise AssertionError(f"no answer to {value!r}")

    def close(self) -> None:
        self._consumer.close()


def test_records_pass_through_spark_in_real_time(
    spark: SparkSession, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = topics.make(), topics.make()
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topics.address)
    rows = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
    writer: Any = (
        rows.selectExpr("key", "concat('re: ', cast(value as string)) value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.address)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .outputMode("update")
    )
    # PySpark's type stub does not know of this trigger.
    query = writer.trigger(realTime="5 minutes").start()
    echo = Echo(topics.address, source, target)
    try:
        times = [echo.milliseconds(b"%d" % number) for number in range(WARM_UP + MEASURED)]
    finally:
        query.stop()
        echo.close()
    assert query.exception() is None
    assert echo.answers == [b"re: %d" % number for number in range(WARM_UP + MEASURED)]
    percentiles = quantiles(times[WARM_UP:], n=100)
    with capsys.disabled():
        print(
            f"\nreal-time mode over {topics.address}: p50 {percentiles[49]:.1f} ms, "
            f"p90 {percentiles[89]:.1f} ms, p99 {percentiles[98]:.1f} ms"
        )
