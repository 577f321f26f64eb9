"""Work that is the same for many items, spread over executors: records never enter the JVM.

Items and what comes back of each are small; they travel pickled, an item as one row through a
``mapInArrow``, its result by an accumulator, which Spark adds up as tasks come to their end: once
for each, however often a task was tried. So all of them run at a time, and results come as they are
done, in no order.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from ottla.spark import java
from ottla.spark.jvm import uninterrupted
from ottla.spark.worker_heap import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

TASKS_MAX: Final = 1_000
_LOOK_SECONDS: Final = 0.1


def run_here(items: Iterable[T], work: Callable[[T], R]) -> Iterator[R]:
    """One after another, in this process."""
    for item in items:
        yield work(item)


def run_on_spark(spark: "SparkSession", items: Sequence[T], work: Callable[[T], R]) -> Iterator[R]:
    """A task for each item, or for several where there are very many."""
    if not items:
        return
    from pyspark.accumulators import Accumulator, AddingAccumulatorParam

    context = spark.sparkContext
    done: Accumulator[list[bytes]] = context.accumulator([], AddingAccumulatorParam([]))
    rows = [(bytearray(pickle.dumps(item)),) for item in items]
    spread = context.parallelize(rows, min(len(rows), TASKS_MAX))
    frame = spark.createDataFrame(spread, "item binary")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column(0).to_pylist():
                done.add([pickle.dumps(work(pickle.loads(item)))])  # noqa: S301 - our own
            yield batch.slice(0, 0)
        settle()

    with ThreadPoolExecutor(1, "ottla-job") as threads:
        under_way = threads.submit(frame.mapInArrow(run, "item binary").collect)
        seen = 0
        try:
            while not under_way.done() or seen < len(done.value):
                for result in done.value[seen:]:
                    seen += 1
                    yield pickle.loads(result)  # noqa: S301 - our own
                wait([under_way], _LOOK_SECONDS)
        except BaseException:  # nobody waits for the rest
            context.cancelAllJobs()
            raise
        under_way.result()


def session(master: str, name: str) -> "SparkSession":
    """Workers run the interpreter of this process."""
    from pyspark.sql import SparkSession

    if not master.startswith("sc://"):  # a Spark that runs already has its Java
        java.ensure()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master).appName(name)
    with uninterrupted():
        made = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
