"""Topics into Spark: every way to read the same rows, and Parquet's as the limit."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.measures import BROKER_CPU, ROWS_PER_SECOND, SPARK_CPU, THROUGHPUT, Figures
from benchmarks.spark_stage import KEY, Shape, Stage, Sums, sums_of
from tools.kafka_peer.broker_process import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONNECTOR: Final = "spark-sql-kafka"
WAYS: Final = {
    "fetch": {"readFrom": "broker"},
    "segments on disk": {"readFrom": "segments"},
    "remote segments": {"readFrom": "remote"},
}
VALUE_ALONE: Final = ", value alone"
TUNED: Final = {"kafka.max.partition.fetch.bytes": str(8 << 20)}
"""Of the connector, as it is fastest; ours are its defaults."""
WANTED: Final = {
    ("100 B", "fetch"): 3.2,
    ("1 KB", "fetch"): 1.5,
    ("100 B", "segments on disk"): 3.3,
    ("1 KB", "segments on disk"): 1.75,
    ("100 B", "fetch" + VALUE_ALONE): 4.9,
    ("1 KB", "fetch" + VALUE_ALONE): 1.8,
}
"""What a prototype reached."""

Read = Callable[[], "DataFrame"]


def costed(stage: Stage, shape: Shape, run: Callable[[], object]) -> Figures:
    """Rows and bytes a second of ``run``, and the work of broker and Spark for it."""
    expected = stage.expected[shape]
    payload = expected.length + expected.rows * KEY
    broker, spark = cpu_seconds(stage.broker.pid), stage.spark_cpu()
    began = time.perf_counter()
    run()
    elapsed = time.perf_counter() - began
    broker, spark = cpu_seconds(stage.broker.pid) - broker, stage.spark_cpu() - spark
    return {
        "rows": (expected.rows / elapsed, ROWS_PER_SECOND),
        "throughput": (payload / elapsed / 1e6, THROUGHPUT),
        "broker cpu": (broker / (payload / 1e9), BROKER_CPU),
        "spark cpu": (spark / (payload / 1e9), SPARK_CPU),
    }


def reads(stage: Stage, shape: Shape) -> dict[str, Read]:
    """Frames of all rows of a topic, by contender; each is planned anew."""
    found: dict[str, Read] = {CONNECTOR: partial(_of_topic, stage, shape, "kafka", TUNED)}
    for name, way in WAYS.items():
        options = {**way, "remoteStore": stage.store} if "remote" in way.values() else way
        found[name] = partial(_of_topic, stage, shape, "ottla", options)
        if name != "remote segments":
            found[name + VALUE_ALONE] = partial(
                _of_topic, stage, shape, "ottla", options, "value binary"
            )
    found["Parquet scan"] = lambda: stage.spark.read.parquet(stage.parquet(shape))
    return found


def _of_topic(
    stage: Stage, shape: Shape, name: str, options: dict[str, str], schema: str | None = None
) -> "DataFrame":
    reader = stage.spark.read.format(name).options(**options)
    reader = reader.option("kafka.bootstrap.servers", stage.address)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.option("subscribe", shape.topic).load()


def check(stage: Stage, shape: Shape, found: Sums) -> None:
    expected = stage.expected[shape]
    if found.offsets is None:
        expected = expected._replace(offsets=None)
    assert found == expected, f"{shape.name}: {found}, expected {expected}"


def check_contents(stage: Stage, shape: Shape, frames: dict[str, Read]) -> None:
    """Each way gives the same bytes; it warms everything up, too."""
    from pyspark.sql import functions as f

    sums: dict[str, int] = {}
    for contender, frame in frames.items():
        row = frame().agg(f.count("*"), f.sum(f.crc32("value"))).collect()[0]
        assert row[0] == stage.expected[shape].rows, f"{contender}: {row[0]} rows"
        sums[contender] = row[1]
    assert len(set(sums.values())) == 1, f"{shape.name}: contents differ: {sums}"


def measure(stage: Stage, shape: Shape, frame: Read) -> Figures:
    return costed(stage, shape, lambda: check(stage, shape, sums_of(frame())))
