"""Columns that become values in a format, and rows that cannot."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.committed import committed_records, committed_values
from tests.spark.messages import descriptors
from tests.spark.registry_server import RegistryServer
from tests.spark.test_formats import ORDERS, ROW
from tests.spark.topics import Row, Topics

from ottla.records.record import Record
from ottla.spark.codec.rows import UnwritableTable
from ottla.spark.codec.schema import Columns
from ottla.spark.dead_letters import BadRecord, TooManyDeadLetters
from ottla.spark.formats.arrow_types import parse_columns
from ottla.spark.formats.avro_types import schema_of
from ottla.spark.formats.values import decoded_type
from ottla.spark.sink.formatted_writes import formatted_rows
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.writer import write
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch, read_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "id bigint, small int, name string, price double, ok boolean, day date, at timestamp, "
    "amount decimal(12, 2), tags array<string>, place struct<city: string, zip: int>"
)
ROWS = st.lists(st.fixed_dictionaries({k: st.none() | v for k, v in ROW.items()}), max_size=5)
SERVERS = "kafka.bootstrap.servers"


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as made:
        yield made


@pytest.fixture(scope="module")
def order_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("schemas") / "shop.desc"
    path.write_bytes(descriptors())
    return str(path)


def sink(topics: Topics, topic: str, **more: str) -> SinkOptions:
    return SinkOptions.parse({SERVERS: topics.address, "topic": topic, **more})


def fitted(options: SinkOptions, kind: pa.DataType) -> SinkOptions:
    """As the driver makes them for rows whose value is of this type."""
    return replace(options, formats=options.formats.writing(pa.string(), kind))


def read_back(topics: Topics, topic: str, **more: str) -> list[Any]:
    options = SourceOptions.parse({SERVERS: topics.address, "subscribe": topic, **more})
    options = replace(options, formats=options.formats.reading())
    columns = Columns(["key", "value"])
    return [
        row
        for wanted in plan_batch(options)
        for table in read_range(wanted, options, columns)
        for row in table.to_pylist()
    ]


def round_trip(
    topics: Topics,
    rows: list[Any],
    kind: pa.DataType,
    options: dict[str, str],
    read: dict[str, str],
) -> None:
    topic = topics.make()
    keys = pa.array([f"k{number}" for number in range(len(rows))], pa.string())
    table = pa.record_batch({"key": keys, "value": pa.array(rows, kind)})
    write(fitted(sink(topics, topic, **options), kind), 0, [table])
    found = read_back(topics, topic, keyFormat="string", **read)
    assert found == table.to_pylist()


@settings(max_examples=15, deadline=None)
@given(ROWS)
def test_json_that_is_written_is_read_as_it_was(topics: Topics, rows: list[Any]) -> None:
    options = {"valueFormat": "json"}
    round_trip(topics, rows, parse_columns(COLUMNS), options, {**options, "valueSchema": COLUMNS})


@settings(max_examples=15, deadline=None)
@given(ROWS)
def test_avro_that_is_written_is_read_as_it_was_by_the_schema_that_was_registered(
    topics: Topics, server: RegistryServer, rows: list[Any]
) -> None:
    options = {"valueFormat": "avro", "schemaRegistry": server.url, "valueSubject": "orders"}
    round_trip(topics, rows, parse_columns(COLUMNS), options, options)


@settings(max_examples=15, deadline=None)
@given(ORDERS)
def test_protobuf_that_is_written_is_read_as_it_was(
    topics: Topics, server: RegistryServer, order_file: str, rows: list[Any]
) -> None:
    options = {
        "valueFormat": "protobuf",
        "schemaRegistry": server.url,
        "valueSchemaFile": order_file,
        "messageName": "shop.Order",
        "valueSubject": "shop",
    }
    maps = ("tags", "times")  # whose entries have no order
    one_each = [row and {**row, **{name: row[name][:1] for name in maps}} for row in rows]
    formats = sink(topics, "t", **options).formats
    round_trip(topics, one_each, decoded_type(formats.value), options, options)


def letters(topics: Topics, topic: str) -> list[Record]:
    return [each for some in committed_records(topics.address, topic).values() for each in some]


def test_a_row_that_cannot_be_encoded_is_a_dead_letter_and_the_others_are_written(
    topics: Topics,
) -> None:
    topic, dead = topics.make(), topics.make()
    kind = parse_columns("id bigint, share double, raw binary")
    options = fitted(sink(topics, topic, valueFormat="json", deadLetterTopic=dead), kind)
    rows = [{"id": i, "share": float("nan") if i % 4 == 1 else 0.5, "raw": b"\0"} for i in range(8)]
    table = pa.record_batch(
        {
            "key": pa.array([f"k{i}" for i in range(8)], pa.string()),
            "id": pa.array([row["id"] for row in rows], pa.int64()),
            "share": pa.array([row["share"] for row in rows], pa.float64()),
            "raw": pa.array([row["raw"] for row in rows], pa.binary()),
            "timestamp": pa.array([1_000_000] * 8, pa.timestamp("us", "UTC")),
        }
    )
    assert write(options, 0, [table]).records == 8
    values = [b'{"id":%d,"share":0.5,"raw":"AA=="}' % i for i in range(8) if i % 4 != 1]
    assert committed_values(topics.address, topic) == values
    found = letters(topics, dead)
    assert [(each.key, each.timestamp) for each in found] == [(b"k1", 1000), (b"k5", 1000)]
    assert found[0].value == b'{"id": 1, "share": NaN, "raw": "AA=="}'
    headers = dict(found[0].headers)
    assert (headers["ottla.error.reason"] or b"").startswith(b"value: Out of range float values")
    assert headers["ottla.error.class"] == b"BadRow"
    assert headers["ottla.sink.topic"] == topic.encode()


def bad_table(count: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([1 << 40] * count, pa.int64())})


def test_without_a_place_for_dead_letters_the_first_one_ends_the_query() -> None:
    options = SinkOptions.parse(
        {
            SERVERS: "localhost:1",
            "topic": "orders",
            "valueFormat": "json",
            "valueSchema": "id int",
        }
    )
    with pytest.raises(BadRecord, match=r"a row for orders cannot be written: value: .* 109951162"):
        list(formatted_rows(options, [bad_table(1)]))
    formats = replace(options.formats, dead_letter_topic="dead", dead_letter_max=3)
    some = formatted_rows(replace(options, formats=formats), [bad_table(2), bad_table(2)])
    with pytest.raises(TooManyDeadLetters, match=r"4 rows of one task .* deadLetterMax=3"):
        list(some)


def test_a_dead_letter_that_is_too_large_is_without_its_value() -> None:
    options = SinkOptions.parse(
        {
            SERVERS: "localhost:1",
            "topic": "orders",
            "valueFormat": "json",
            "valueSchema": "id int, text string",
            "deadLetterTopic": "dead",
            "kafka.max.request.size": "1000",
        }
    )
    table = pa.record_batch({"id": pa.array([1 << 40]), "text": pa.array(["x" * 600])})
    good, dead = formatted_rows(options, [table])
    assert good.count == 0
    assert int(dead.value.sizes[0]) == 0
    names = bytes(dead.names.data.tobytes())
    assert b"ottla.error.omitted" in names


def test_a_table_without_columns_for_a_value_is_refused() -> None:
    options = SinkOptions.parse({SERVERS: "localhost:1", "topic": "t", "valueFormat": "json"})
    with pytest.raises(UnwritableTable, match="no column to make a value from"):
        list(formatted_rows(options, [pa.record_batch({"key": pa.array(["k"])})]))


def test_columns_become_values_and_a_stream_writes_its_dead_letters_once(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    source, target, dead = topics.make(2), topics.make(2), topics.make()
    values = [b'{"id": %d}' % i for i in range(40)]
    topics.fill(source, [Row(i % 2, b"k", value) for i, value in enumerate(values)])
    avro = schema_of(parse_columns("id int, twice bigint")).replace(
        '"type": ["null", "long"], "default": null', '"type": "long"'
    )
    read = spark.readStream.format("ottla").option(SERVERS, topics.address)
    read = read.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    rows = read.options(valueFormat="json", valueSchema="id bigint").load()
    made = rows.selectExpr("key", "value.id", "if(value.id = 7, null, value.id * 2) twice")
    writer = made.writeStream.format("ottla").option(SERVERS, topics.address)
    writer = writer.options(topic=target, exactlyOnce="true", deadLetterTopic=dead)
    writer = writer.options(valueFormat="avro", valueSchema=avro)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query = writer.start()
    assert query.awaitTermination(120)
    read_again = spark.read.format("ottla").option(SERVERS, topics.address)
    read_again = read_again.option("kafka.isolation.level", "read_committed")
    found = read_again.options(subscribe=target, valueFormat="avro", valueSchema=avro).load()
    pairs = sorted((row.id, row.twice) for row in found.select("value.*").collect())
    assert pairs == [(i, 2 * i) for i in range(40) if i != 7]
    assert [each.value for each in letters(topics, dead)] == [b'{"id": 7, "twice": null}']


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("select 1 id", {"valueFormat": "avro", "valueSchema": '"nothing"'}, "no Avro schema"),
        ("select 'x' id", {"valueFormat": "json", "valueSchema": "id int"}, "column value.id is s"),
        ("select 1 id, 2 x", {"valueFormat": "json", "valueSchema": "id int"}, "has no field x"),
        ("select 1 id", {"valueFromat": "json"}, "did you mean valueFormat"),
    ],
)
def test_a_wrong_schema_is_refused_before_anything_is_written(
    spark: "SparkSession", topics: Topics, query: str, options: dict[str, str], reason: str
) -> None:
    writer = spark.sql(query).write.format("ottla").option(SERVERS, topics.address)
    with pytest.raises(Exception, match=reason):
        writer.options(topic="t", **options).mode("append").save()
