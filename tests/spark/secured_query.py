"""Queries against a secured cluster, as a process of their own whose every word is kept.

Reads what to do from standard input, as JSON: options of the cluster, others that are to be
refused, a directory. Prints the rows that it has read, plans, and what was said of failures.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def session(directory: Path) -> SparkSession:
    events = directory / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.Builder().master("local[2]").appName("secured")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("INFO")
    return made


def copy(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    """From topic to topic, each row once."""
    frame = spark.readStream.format("ottla").options(**options).load().select("key", "value")
    frame.explain(extended=True)
    sink = {name: value for name, value in options.items() if name.startswith("kafka.")}
    sink |= {"topic": "copied", "exactlyOnce": "true", "transactionalIdPrefix": "secured"}
    sink["checkpointLocation"] = str(directory / "checkpoint")
    query = frame.writeStream.format("ottla").options(**sink).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    print(query.lastProgress, query.status)


def main() -> None:
    wanted: dict[str, Any] = json.loads(sys.stdin.readline())
    directory = Path(wanted["directory"])
    spark = session(directory)
    right, bad = wanted["right"], wanted["bad"]
    frame = spark.read.format("ottla").options(**right, subscribe="rows").load()
    for mode in ("simple", "extended", "formatted", "cost", "codegen"):
        frame.explain(mode=mode)
    print("ROWS", sorted(bytes(row.value).decode() for row in frame.collect()))
    print(frame, repr(frame), frame.schema)
    rows = spark.sql("select string(id) value from range(0, 5)")
    rows.write.format("ottla").options(**right, topic="rows-2").mode("append").save()
    copy(spark, {**right, "subscribe": "rows", "startingOffsets": "earliest"}, directory)
    copied = spark.read.format("ottla").options(**right, subscribe="copied").load()
    print("COPIED", sorted(bytes(row.value).decode() for row in copied.collect()))
    for options in (*bad, {**right, "kafka.sasl.mechanism": "GSSAPI"}):
        for act in (
            lambda o: spark.read.format("ottla").options(**o, subscribe="rows").load().collect(),
            lambda o: rows.write.format("ottla").options(**o, topic="r").mode("append").save(),
            lambda o: copy(
                spark, {**o, "subscribe": "rows", "startingOffsets": "earliest"}, directory / "x"
            ),
        ):
            try:
                act(options)
                print("NOT REFUSED")
            except PySparkException as error:
                print("REFUSED", repr(error))
                traceback.print_exc()
    spark.stop()


if __name__ == "__main__":
    main()
