"""Topic words -> streaming table -> materialized view -> topic counts."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BROKERS = str(spark.conf.get("spark.ottla.bootstrap.servers", "localhost:9092"))


@dp.table
def words() -> DataFrame:
    """Each record of the topic, a row."""
    return (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "words")
        .option("startingOffsets", "earliest")
        .load()
        .select(f.col("value").cast("string").alias("word"), "timestamp")
    )


@dp.materialized_view
def word_counts() -> DataFrame:
    """Computed anew when there are new words."""
    return spark.table("words").groupBy("word").count()


dp.create_sink("counts", "ottla", {"kafka.bootstrap.servers": BROKERS, "topic": "counts"})


@dp.append_flow(target="counts")
def count_changes() -> DataFrame:
    """A view read as a stream gives the rows that are new or have changed."""
    return spark.readStream.table("word_counts").select(
        f.col("word").alias("key"), f.to_json(f.struct("word", "count")).alias("value")
    )
