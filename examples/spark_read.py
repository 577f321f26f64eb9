"""A topic as a table: the words of its records, counted by Spark."""

import os
import sys
from contextlib import ExitStack

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count

from ottla.client.producer import Producer
from ottla.spark import java
from ottla.testing import Broker

TOPIC = "words"


def main(servers: str) -> None:
    with Producer(servers) as producer:
        for word in ("log", "batch", "log", "offset", "log"):
            producer.send(TOPIC, word.encode())

    java.ensure()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master("local[1]").appName("words")
    spark = builder.config("spark.ui.enabled", value=False).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    words = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .load()
        .select(col("value").cast("string").alias("word"))
    )
    counted = words.groupBy("word").agg(count("*").alias("times")).orderBy("word").collect()
    spark.stop()
    print("counted", {row["word"]: row["times"] for row in counted})


if __name__ == "__main__":
    with ExitStack() as stack:
        main(sys.argv[1] if sys.argv[1:] else stack.enter_context(Broker()).bootstrap_servers)
