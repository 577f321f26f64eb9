"""Values in formats through ``spark.read`` and ``readStream``, in a real session."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.spark.messages import descriptors
from tests.spark.topics import Row, Topics

from ottla.client.consumer import Consumer
from ottla.common.topic_partition import TopicPartition
from ottla.spark.formats.arrow_types import parse_columns
from ottla.spark.formats.avro_types import schema_of
from ottla.spark.formats.spec import FormatSpec
from ottla.spark.formats.values import decoded_type, encode_column

DDL = (
    "id bigint, name string, at timestamp, day date, amount decimal(9, 2), "
    "tags array<string>, place struct<city: string, zip: int>"
)


def written(spec: FormatSpec, rows: list[dict[str, Any]]) -> list[bytes]:
    column = pa.array(rows, decoded_type(spec))
    found: list[bytes] = encode_column(column, spec).array.to_pylist()
    return found


def end_of(topics: Topics, topic: str) -> int:
    with Consumer(topics.address) as consumer:
        place = TopicPartition(topic, 0)
        return consumer.end_offsets([place])[place]


def test_each_format_is_a_struct_of_columns(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptors())
    avro = schema_of(parse_columns(DDL + ", more map<string, long>"))
    cases: list[tuple[FormatSpec, dict[str, str], dict[str, Any]]] = [
        (FormatSpec("json", DDL), {"valueSchema": DDL}, {"id": 1, "tags": ["a", None]}),
        (FormatSpec("avro", avro), {"valueSchema": avro}, {"id": 1, "more": [("a", 1)]}),
        (
            FormatSpec("protobuf", None, descriptors(), "shop.Order"),
            {"valueSchemaFile": str(tmp_path / "shop.desc"), "messageName": "shop.Order"},
            {"a_uint64": 2**63, "lines": [{"sku": "a"}], "tags": [("t", {"count": 1})]},
        ),
    ]
    for spec, options, row in cases:
        topic, dead = topics.make(), topics.make()
        values = [*written(spec, [row] * 3), b"\xff", None]
        topics.fill(topic, [Row(0, b"k", value) for value in values])
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", topics.address)
        reader = reader.options(subscribe=topic, valueFormat=spec.format, keyFormat="string")
        frame = reader.options(deadLetterTopic=dead, **options).load()
        assert frame.where("value is null and key = 'k'").count() == 1
        found = [each.asDict(recursive=True) for each in frame.select("value.*").collect()]
        (expected,) = pa.array([row], decoded_type(spec)).to_pylist(maps_as_pydicts="strict")
        assert len(found) == 4
        for name in row:
            if name not in {"lines", "tags"} or spec.format != "protobuf":
                assert found[0][name] == expected[name]
        assert end_of(topics, dead) == 2, "once for each action"


def test_a_streaming_query_passes_bad_records_by(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, dead = topics.make(), topics.make()
    values = [b"bad" if i % 10 == 0 else b'{"id": %d}' % i for i in range(100)]
    topics.fill(topic, [Row(0, None, value) for value in values])
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.address)
    reader = reader.options(subscribe=topic, startingOffsets="earliest", deadLetterTopic=dead)
    frame = reader.options(valueFormat="json", valueSchema="id bigint").load()
    query = (
        frame.select("value.id")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(60)
    assert query.exception() is None
    found = spark.read.schema("id bigint").parquet(str(tmp_path / "out"))
    assert sorted(row.id for row in found.collect()) == [i for i in range(100) if i % 10]
    assert end_of(topics, dead) == 10
