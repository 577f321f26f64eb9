"""Work that is the same for many items, spread over executors: records never enter the JVM.

Items and what comes back of each are small; they travel pickled, one row each, through a
``mapInArrow``. Results come as they are done, in no order.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_SCHEMA = pa.schema([pa.field("item", pa.binary())])


def run_here(items: Iterable[T], work: Callable[[T], R]) -> Iterator[R]:
    """One after another, in this process."""
    for item in items:
        yield work(item)


def run_on_spark(spark: "SparkSession", items: Sequence[T], work: Callable[[T], R]) -> Iterator[R]:
    """A task for each item, or for several where there are very many."""
    if not items:
        return
    rows = [(bytearray(pickle.dumps(item)),) for item in items]
    frame = spark.createDataFrame(rows, "item binary").repartition(min(len(rows), 1_000))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column(0).to_pylist():
                done = pickle.dumps(work(pickle.loads(item)))  # noqa: S301 - our own
                yield pa.RecordBatch.from_arrays([pa.array([done], pa.binary())], schema=_SCHEMA)

    for row in frame.mapInArrow(run, "item binary").toLocalIterator(prefetchPartitions=True):
        yield pickle.loads(bytes(row[0]))  # noqa: S301 - our own


def session(master: str, name: str) -> "SparkSession":
    """Workers run the interpreter of this process."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master).appName(name)
    made = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
