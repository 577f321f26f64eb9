"""A streaming query from topic to topic, in a process of its own that a test may kill.

Arguments: address, source, target, checkpoint. Says ``started`` when it runs and ends when
all is done.
"""

import sys

from pyspark.sql import SparkSession


def main(address: str, source: str, target: str, checkpoint: str) -> None:
    builder = SparkSession.Builder().master("local[2,4]").appName("killed")
    for name, value in {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
        "spark.python.authenticate.socketTimeout": "300s",  # the machine may be busy
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    read = {
        "kafka.bootstrap.servers": address,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100",
    }
    write = {
        "kafka.bootstrap.servers": address,
        "topic": target,
        "exactlyOnce": "true",
        "checkpointLocation": checkpoint,
    }
    rows = spark.readStream.format("ottla").options(**read).load().select("key", "value")
    stream = rows.writeStream.format("ottla").options(**write).trigger(availableNow=True)
    query = stream.start()
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
