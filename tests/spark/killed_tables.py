"""Writes batches to tables of all formats, and kills itself, with Spark, at a step of its writes.

Arguments: directory, at which step (0: at none). Each run begins with the first batch again.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.spark.table_formats import FORMATS, numbers, spec_of

from ottla.spark.tables.table import Table, open_table

BATCHES = 4


class Killer:
    def __init__(self, last: int) -> None:
        self.last = last
        self.steps = 0

    def __call__(self, _step: str) -> None:
        self.steps += 1
        if self.steps == self.last:
            os.killpg(0, signal.SIGKILL)


def main(directory: str, last: str) -> None:
    builder = SparkSession.Builder().master("local[1]").appName("killed")
    for name, value in {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    killer = Killer(int(last))
    for batch in range(BATCHES):
        for kind in FORMATS:
            write(spark, Path(directory), kind, batch, killer)
    spark.stop()


def write(spark: SparkSession, directory: Path, kind: str, batch: int, killer: Killer) -> None:
    """Batch n is 10n to 10n+9; with an upsert half of it comes again with the next."""

    def table(name: str) -> Table:
        return open_table(spec_of(kind, directory / kind / name), at_step=killer)

    rows: DataFrame = numbers(spark, 10 * batch, 10 * batch + 10, f"batch {batch}")
    table("appended").append(rows, writer="w", batch=batch)
    table("replaced").replace(rows, writer="w", batch=batch)
    more = numbers(spark, 10 * batch, 10 * batch + 15, f"batch {batch}")
    table("upserted").upsert(more, ["id"], writer="w", batch=batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
