"""The Spark session that a pipeline runs in."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.spark.java import ensure
from ottla.spark.pipelines.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOTSTRAP: Final = "spark.ottla.bootstrap.servers"
"""Where definitions find the address of the brokers."""
DEFAULTS: Final = {
    "spark.ui.showConsoleProgress": "false",
    # A stream keeps the number that it began with, and Spark's own (200) is one of large clusters.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.streaming.stopTimeout": "60s",
}


def open_session(pipeline: Pipeline, master: str, conf: Mapping[str, str]) -> "SparkSession":
    """Settings on the command line go before those of the file, and those before ours."""
    from pyspark.sql import SparkSession

    ensure()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master).appName(f"ottla pipeline {pipeline.name}")
    for name, value in {**DEFAULTS, **pipeline.spark, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def active(spark: "SparkSession") -> Iterator[None]:
    """``SparkSession.active()`` is this session, as definitions expect.

    Micro-batches run in copies of a session, which PySpark may take for the active one since.
    """
    from pyspark.sql import SparkSession

    names = ("active", "getActiveSession")
    before = {name: SparkSession.__dict__[name] for name in names}
    for name in names:
        setattr(SparkSession, name, classmethod(lambda _: spark))
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(SparkSession, name, method)
