"""Spark's rows into topics, and topics to Parquet past Spark's rows.

The sink is given rows that Spark reads from Parquet; what it wrote is read again and compared, but
that is not in its time. Export is the work of ``ottla jobs export`` on the session that runs,
beside Spark's own writer of Parquet with the rows of our source and of the connector.
"""

import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.measures import Figures
from benchmarks.spark_source import CONNECTOR, costed
from benchmarks.spark_stage import PARQUET, PARTITIONS, Shape, Stage, sums_of

from ottla.spark.jobs.export import COLUMNS, Target, export_range
from ottla.spark.jobs.tasks import run_on_spark
from ottla.spark.sink.options import BATCH_BYTES
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINK_CODECS: Final = ("none", "lz4", "zstd")
SINKS: Final = {
    CONNECTOR: ("kafka", {"kafka.batch.size": str(BATCH_BYTES), "kafka.linger.ms": "5"}),
    "sink": ("ottla", {}),
    "sink, exactly once": ("ottla", {"exactlyOnce": "true"}),
}
"""The connector with batches as large as ours are by default: with its own it is slower."""
SINK_WANTED: Final = {"100 B": 1.1, "1 KB": 1.0}

SPARKS_WRITER: Final = "Spark's writer, our source"
EXPORT: Final = "ottla jobs export"
EXPORT_WANTED: Final = {"100 B": 2.8, "1 KB": 2.0}


def sink(stage: Stage, shape: Shape, codec: str, contender: str) -> Figures:
    """All rows of ``shape`` to a topic that is made for them."""
    name, options = SINKS[contender]
    topic = f"sink-{shape.topic}-{codec}"
    rows = stage.spark.read.parquet(stage.parquet(shape)).select("key", "value")
    writer = rows.write.format(name).options(**options).mode("append")
    writer = writer.option("kafka.bootstrap.servers", stage.address).option("topic", topic)
    writer = writer.option("kafka.compression.type", codec)
    stage.make(topic, PARTITIONS)
    try:
        figures = costed(stage, shape, writer.save)
        source = stage.spark.read.format("ottla").schema("value binary")
        source = source.option("kafka.bootstrap.servers", stage.address)
        source = source.option("kafka.isolation.level", "read_committed")
        found = sums_of(source.option("subscribe", topic).load())
        expected = stage.expected[shape]._replace(offsets=None)
        assert found == expected, f"{contender}: {found}, expected {expected}"
    finally:
        stage.delete(topic)
    return figures


def exports(stage: Stage, shape: Shape) -> dict[str, Callable[[str], object]]:
    """By contender, what writes the topic to a directory."""
    given = {
        "kafka.bootstrap.servers": stage.address,
        "subscribe": shape.topic,
        "includeHeaders": "true",
    }
    ours = {**given, "readFrom": "segments"}
    codec = PARQUET[shape.codec]

    def job(directory: str) -> None:
        options = SourceOptions.parse(ours)
        work = partial(export_range, options=options, target=Target(directory, codec))
        list(run_on_spark(stage.spark, plan_batch(options), work))

    def spark_writer(name: str, options: dict[str, str], directory: str) -> None:
        frame: DataFrame = stage.spark.read.format(name).options(**options).load()
        frame.select(*COLUMNS).write.option("compression", codec).parquet(directory)

    return {
        CONNECTOR: partial(spark_writer, "kafka", given),
        SPARKS_WRITER: partial(spark_writer, "ottla", ours),
        EXPORT: job,
    }


def export(stage: Stage, shape: Shape, run: Callable[[str], object]) -> Figures:
    directory = stage.directory / "export"
    try:
        figures = costed(stage, shape, lambda: run(str(directory)))
        found = sums_of(stage.spark.read.parquet(str(directory)))
        expected = stage.expected[shape]
        assert found == expected, f"{shape.name}: {found}, expected {expected}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return figures
