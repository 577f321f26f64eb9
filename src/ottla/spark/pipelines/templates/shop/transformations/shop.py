"""A shop: topics of events -> tables -> a view of the revenue, and enriched orders to a topic.

    customers          ─▶ customers (the latest row of each)
                              │
    orders             ─▶ orders_enriched ─┬─▶ revenue (by window and country)
                                           └─▶ topic orders-enriched
    orders, payments   ─▶ order_states (the latest of each order)
    page-views         ─▶ popular_products (by window)

Orders that are none go to the topic shop-dead-letters, with the reason. Money is in cents.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

spark = SparkSession.active()
BROKERS = str(spark.conf.get("spark.ottla.bootstrap.servers", "localhost:9092"))
WINDOW = "10 seconds"
LATE = "30 seconds"
"""Page views that come later than that are not counted."""


def topic(names: str, group: str) -> DataStreamReader:
    """From the first record on; the group shows how far it is (`ottla groups describe`)."""
    return (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", names)
        .option("startingOffsets", "earliest")
        .option("commitGroup", group)
    )


def json_values(reader: DataStreamReader, schema: str) -> DataFrame:
    """Values as columns; the first record that is no such ends the flow, or is a dead letter."""
    made = reader.option("valueFormat", "json").option("valueSchema", schema)
    return made.load().select("value.*")


# Who buys: a topic of changes, of which the newest row of each customer is kept.


@dp.temporary_view
def customer_changes() -> DataFrame:
    return json_values(
        topic("customers", "shop-customers"),
        "customer_id string, name string, country string, tier string, at timestamp",
    )


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source="customer_changes", keys=["customer_id"], sequence_by="at"
)


# What is bought: each order with the customer's name and country.


@dp.table
def orders_enriched() -> DataFrame:
    orders = json_values(
        topic("orders", "shop-orders").option("deadLetterTopic", "shop-dead-letters"),
        "order_id string, customer_id string, status string, amount bigint, "
        "items array<struct<product_id: string, quantity: int, price: bigint>>, at timestamp",
    )
    customers = spark.table("customers").select("customer_id", "name", "country")
    return (
        orders.where("status = 'placed'")
        .join(customers, "customer_id", "left")
        .select("order_id", "customer_id", "name", "country", "amount", "items", "at")
    )


@dp.materialized_view
def revenue() -> DataFrame:
    """Of each window and country; late orders are counted where they belong."""
    return (
        spark.table("orders_enriched")
        .groupBy(f.window("at", WINDOW).alias("window"), "country")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
        .select("window.start", "country", "orders", "amount")
    )


# How orders fare: placed, paid or declined, shipped; whatever happened last. Spark's own function
# reads the JSON here, and gives nulls for what is none.


@dp.temporary_view
def order_changes() -> DataFrame:
    schema = "order_id string, customer_id string, status string, amount bigint, at timestamp"
    value = f.from_json(f.col("value").cast("string"), schema)
    events = topic("orders,payments", "shop-order-states").load().select(value.alias("value"))
    return events.select("value.*").where("amount IS NOT NULL AND at IS NOT NULL")


dp.create_streaming_table("order_states")
dp.create_auto_cdc_flow(
    target="order_states", source="order_changes", keys=["order_id"], sequence_by="at"
)


# What is looked at: a window is written when nothing that belongs to it can come any more.


@dp.table
def popular_products() -> DataFrame:
    views = json_values(topic("page-views", "shop-page-views"), "product_id string, at timestamp")
    return (
        views.withWatermark("at", LATE)
        .groupBy(f.window("at", WINDOW).alias("window"), "product_id")
        .agg(f.count("*").alias("views"))
        .select("window.start", "product_id", "views")
    )


# Back to the brokers, exactly once.

dp.create_sink(
    "enriched_topic", "ottla", {"kafka.bootstrap.servers": BROKERS, "topic": "orders-enriched"}
)


@dp.append_flow(target="enriched_topic")
def send_enriched() -> DataFrame:
    orders = spark.readStream.table("orders_enriched").drop("items")
    return orders.select(f.col("order_id").alias("key"), f.to_json(f.struct("*")).alias("value"))
