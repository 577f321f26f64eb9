"""What a micro-batch costs: one of a hundred rows, one of none, and a look that finds nothing new.

One partition, rows thrown away, each trigger as soon as the last is over. Times are Spark's own
(``triggerExecution``, with the logs of the checkpoint). A batch of no rows is an aborted
transaction, read by a reader of what is committed: offsets go on, and nothing comes of it.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from benchmarks.measures import BROKER_CPU_OF_BATCH, MICRO_BATCH, Figures
from benchmarks.spark_source import CONNECTOR
from benchmarks.spark_stage import Stage
from confluent_kafka import Producer
from tools.kafka_peer.broker_process import cpu_seconds

from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.writer import write

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ROWS: Final = 100
PAUSE_SECONDS: Final = 0.05
PROBE_SECONDS: Final = 0.01
IDLE_SECONDS: Final = 2.0
WAIT_SECONDS: Final = 60
WARM: Final = 5
STREAMS: Final = {
    CONNECTOR: ("kafka", {}),
    f"{CONNECTOR}, fetch.max.wait.ms=10": ("kafka", {"kafka.fetch.max.wait.ms": "10"}),
    "fetch": ("ottla", {}),
}

_numbers = count(1)


def micro_batches(stage: Stage, contender: str, samples: int) -> dict[str, Figures]:
    """All three rows of one contender."""
    topic = f"stream-{next(_numbers)}"
    stage.make(topic, 1)
    try:
        with _running(stage, contender, topic) as query:
            small = _batches(stage, query, samples, _small(stage, topic))
            empty = _batches(stage, query, samples, _aborted(stage, topic))
            return {
                f"micro-batch of {ROWS} rows": small,
                "micro-batch of no rows": empty,
                "nothing new": _idle(stage, query),
            }
    finally:
        stage.delete(topic)


@contextmanager
def _running(stage: Stage, contender: str, topic: str) -> "Iterator[StreamingQuery]":
    name, options = STREAMS[contender]
    stream = stage.spark.readStream.format(name).options(**options)
    stream = stream.option("kafka.bootstrap.servers", stage.address).option("subscribe", topic)
    stream = stream.option("kafka.isolation.level", "read_committed")
    frame = stream.option("startingOffsets", "earliest").load()
    with tempfile.TemporaryDirectory(dir=stage.directory) as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            yield query
        finally:
            query.stop()


def _small(stage: Stage, topic: str) -> Callable[[], None]:
    """Rows that come together, as one batch."""
    given = {"kafka.bootstrap.servers": stage.address, "topic": topic}
    options = SinkOptions.parse(given)
    rows = pa.record_batch({"value": pa.array([b"v" * 100] * ROWS, pa.binary())})
    return lambda: void(write(options, 0, [rows]))


def _aborted(stage: Stage, topic: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": stage.address, "transactional.id": topic})
    producer.init_transactions(30)

    def abort() -> None:
        producer.begin_transaction()
        producer.produce(topic, b"nobody reads this", partition=0)
        producer.flush(30)
        producer.abort_transaction(30)

    return abort


def void(_: object) -> None:
    """Only what was done counts."""


def _batches(
    stage: Stage, query: "StreamingQuery", samples: int, push: Callable[[], None]
) -> Figures:
    """Push, wait until a micro-batch has taken it, and again."""
    times: list[float] = []
    cpu = 0.0
    for sample in range(WARM + samples):
        if sample == WARM:
            cpu = cpu_seconds(stage.broker.pid)
        number = _next_batch(query)
        push()
        progress = _progress_of(query, number)
        if sample >= WARM:
            times.append(progress["durationMs"]["triggerExecution"])
        time.sleep(PAUSE_SECONDS)
    spent = (cpu_seconds(stage.broker.pid) - cpu) * 1000 / samples
    return {
        "time": (statistics.median(times), MICRO_BATCH),
        "broker cpu": (spent, BROKER_CPU_OF_BATCH),
    }


def _is_run(progress: Any) -> bool:
    return "addBatch" in progress["durationMs"]


def _next_batch(query: "StreamingQuery") -> int:
    last = query.lastProgress
    if last is None:
        return 0
    return int(last["batchId"]) + (1 if _is_run(last) else 0)


def _progress_of(query: "StreamingQuery", number: int) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        if _next_batch(query) > number:
            for progress in query.recentProgress[::-1]:
                if progress["batchId"] == number and _is_run(progress):
                    return progress
        time.sleep(PROBE_SECONDS)
    raise TimeoutError(f"micro-batch {number} did not come")


def _idle(stage: Stage, query: "StreamingQuery") -> Figures:
    """A look for news, and what a second of looking costs the broker."""
    before = cpu_seconds(stage.broker.pid)
    time.sleep(IDLE_SECONDS)
    spent = cpu_seconds(stage.broker.pid) - before
    looks = [each for each in query.recentProgress if not _is_run(each)][-10:]
    times = [each["durationMs"]["triggerExecution"] for each in looks]
    return {
        "time": (statistics.median(times), MICRO_BATCH),
        "broker cpu of a second": (spent * 1000 / IDLE_SECONDS, BROKER_CPU_OF_BATCH),
    }
