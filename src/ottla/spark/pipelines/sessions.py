"""The Spark session that a pipeline runs in."""

import os
import sys
from collections.abc import Mapping
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
