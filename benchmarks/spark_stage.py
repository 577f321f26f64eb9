"""Where the rows of Spark are played: a broker with topics, a session, and the rows in Parquet.

Each topic holds records of one size and one codec, in closed segments that lie both on this disk
and in the remote store, and one record in each partition behind them; so it can be read in every
way. Values repeat after a while, and differ in length: that they are all there shows in sums.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tools.installed import IMPORT_PATH
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds, ottla, process_tree
from tools.kafka_peer.setup import PROJECT
from tools.kafka_peer.spark_connector import jars

from ottla.client.admin import Admin
from ottla.client.descriptions import ConfigChange, ConfigResource, NewTopic, ResourceType
from ottla.client.offsets import LATEST, LATEST_TIERED
from ottla.common.topic_partition import TopicPartition
from ottla.spark.jobs.export import Target, export_range
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.writer import write
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 4
KEY: Final = 8
DISTINCT: Final = 20_000
SEGMENT: Final = 64 << 20
BATCH: Final = 64 << 10
ROWS: Final = {"100 B": 8_000_000, "1 KB": 1_200_000}
SIZES: Final = {"100 B": 100, "1 KB": 1_000}
CODECS: Final = ("none", "zstd")
PARQUET: Final = {"none": "snappy", "zstd": "zstd"}
"""Spark's own default for rows that are not compressed in their topic."""
BROKER: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
}
SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataProgressEventInterval": "100",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
WAIT_SECONDS: Final = 120


class Sums(NamedTuple):
    """By which rows are known to be all there, each once."""

    rows: int
    length: int
    """Of all values."""
    offsets: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Records of one topic."""

    size: str
    codec: str
    rows: int

    @property
    def topic(self) -> str:
        return f"{self.size}-{self.codec}".replace(" ", "")

    @property
    def name(self) -> str:
        return self.size if self.codec == "none" else f"{self.size} {self.codec}"

    def tables(self) -> Iterator[pa.RecordBatch]:
        """Key and value of all rows."""
        values = _values(SIZES[self.size])
        for start in range(0, self.rows, DISTINCT):
            count = min(DISTINCT, self.rows - start)
            numbers = np.arange(start, start + count, dtype=">i8")
            keys = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(KEY), count, [None, pa.py_buffer(numbers)]
            )
            columns = [keys.cast(pa.binary()), values.slice(0, count)]
            yield pa.RecordBatch.from_arrays(columns, ["key", "value"])


def _values(size: int) -> pa.Array:
    """Like JSON, of about ``size`` bytes; a third of that when it is compressed."""
    chance = np.random.default_rng(size)
    values = []
    for number in range(DISTINCT):
        text = f'{{"id":{number},"kind":"order"'
        wanted = size + number % 9 - 4
        while len(text) < wanted:
            words = chance.integers(0, 1 << 30, 2)
            text += f',"customer":{words[0]},"amount":{words[1] % 1000}.5,"currency":"EUR"'
        values.append(text[: wanted - 1].encode() + b"}")
    return pa.array(values, pa.binary())


@dataclass(slots=True)
class Stage:
    """All that runs meanwhile."""

    broker: BrokerProcess
    directory: Path
    scale: float
    spark: "SparkSession"
    jvm: int
    """Its process."""
    expected: dict[Shape, Sums] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def store(self) -> str:
        return (self.directory / "remote").as_uri()

    def shape(self, size: str, codec: str) -> Shape:
        return Shape(size, codec, max(DISTINCT, int(ROWS[size] * self.scale)))

    def parquet(self, shape: Shape) -> str:
        return str(self.directory / f"parquet-{shape.topic}")

    def make(self, topic: str, partitions: int, **settings: str) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        with Admin(self.address) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1, named)])

    def delete(self, topic: str) -> None:
        with Admin(self.address) as admin:
            admin.delete_topics([topic])

    def prepare(self, shape: Shape) -> None:
        """Write the topic, wait until it is remote, and write the same rows to Parquet."""
        segment = str(max(int(SEGMENT * self.scale), 8 << 20))
        self.make(
            shape.topic, PARTITIONS, segment_bytes=segment, remote_storage_enable="true",
            retention_ms="-1",
        )  # fmt: skip
        given = {
            "kafka.bootstrap.servers": self.address,
            "kafka.compression.type": shape.codec,
            "kafka.batch.size": str(BATCH),
            "topic": shape.topic,
        }
        sink = SinkOptions.parse(given)
        write(sink, 0, shape.tables())
        self._close_segments(shape, sink)
        self.expected[shape] = self._sums(shape)
        options = SourceOptions.parse(
            {"kafka.bootstrap.servers": self.address, "subscribe": shape.topic}
        )
        target = Target(self.parquet(shape), PARQUET[shape.codec])
        for wanted in plan_batch(options):
            export_range(wanted, options, target)

    def _close_segments(self, shape: Shape, sink: SinkOptions) -> None:
        with Admin(self.address) as admin:
            topic = ConfigResource(ResourceType.TOPIC, shape.topic)
            admin.alter_configs({topic: [ConfigChange("segment.ms", "1")]})
            time.sleep(0.1)
            last = pa.record_batch(
                {
                    "key": pa.array([bytes(KEY)] * PARTITIONS, pa.binary()),
                    "value": pa.array([b"the last"] * PARTITIONS, pa.binary()),
                    "partition": pa.array(range(PARTITIONS), pa.int32()),
                }
            )
            write(sink, 0, [last])
            partitions = [TopicPartition(shape.topic, index) for index in range(PARTITIONS)]
            deadline = time.monotonic() + WAIT_SECONDS
            while True:
                ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
                tiered = admin.list_offsets(dict.fromkeys(partitions, LATEST_TIERED))
                # The one behind the closed segments stays.
                if all(tiered[each].offset + 2 >= ends[each].offset for each in partitions):
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{shape.topic} is not remote:\n{self.broker.output()}")
                time.sleep(0.2)

    def _sums(self, shape: Shape) -> Sums:
        """As they must come out, from what was written and from the ends of the partitions."""
        sizes = (pc.sum(pc.binary_length(table.column("value"))) for table in shape.tables())
        length = sum(each.as_py() for each in sizes)
        partitions = [TopicPartition(shape.topic, index) for index in range(PARTITIONS)]
        with Admin(self.address) as admin:
            listed = admin.list_offsets(dict.fromkeys(partitions, LATEST)).values()
        ends = [each.offset for each in listed]
        assert sum(ends) == shape.rows + PARTITIONS, f"{sum(ends)} offsets for {shape.rows} rows"
        offsets = sum(end * (end - 1) // 2 for end in ends)
        return Sums(shape.rows + PARTITIONS, length + PARTITIONS * len("the last"), offsets)

    def spark_cpu(self) -> float:
        """Of the JVM and all Python workers below it, so far."""
        return sum(cpu_seconds(pid) for pid in process_tree(self.jvm))


def sums_of(frame: "DataFrame") -> Sums:
    """The query of all contenders; without offsets where the frame has none."""
    from pyspark.sql import functions as f

    columns = [f.count("*"), f.sum(f.length("value"))]
    if "offset" in frame.columns:
        columns.append(f.sum("offset"))
    return Sums(*frame.agg(*columns).collect()[0])


@contextmanager
def stage(directory: Path, scale: float, settings: Mapping[str, str]) -> Iterator[Stage]:
    url = (directory / "remote").as_uri()
    given = {**BROKER, "ottla.remote.store.url": url}
    with (
        BrokerProcess(ottla(), directory / "broker", given) as broker,
        _session(directory, settings) as (spark, jvm),
    ):
        yield Stage(broker, directory, scale, spark, jvm)


@contextmanager
def _session(directory: Path, settings: Mapping[str, str]) -> "Iterator[tuple[SparkSession, int]]":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([IMPORT_PATH, str(PROJECT)])
    local = directory / "spark"
    local.mkdir()
    builder = SparkSession.Builder().master("local[2]").appName("ottla-bench")
    fixed = {
        **SETTINGS,
        "spark.local.dir": str(local),
        "spark.jars": ",".join(str(path) for path in jars()),
    }
    for name, value in {**fixed, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no other way to it
    try:
        yield session, jvm
    finally:
        session.stop()
        shutil.rmtree(local, ignore_errors=True)
