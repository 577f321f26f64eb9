"""Options of formats: what is asked for, and where its schema is found."""

import base64
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2 as pb
from tests.spark.messages import F, add, descriptors, shop_file
from tests.spark.registry_server import RegistryServer

from ottla.spark.errors import BadOption
from ottla.spark.format_options import NO_FORMATS, FormatOptions, format_option_names
from ottla.spark.formats.arrow_types import parse_columns
from ottla.spark.formats.values import decode_values, decoded_type, encode_column
from ottla.spark.registry import RegistryError
from ottla.spark.source.options import SourceOptions


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as made:
        yield made


def test_without_options_bytes_stay_bytes() -> None:
    assert FormatOptions.parse({}) == NO_FORMATS
    assert NO_FORMATS.reading().values.raw()
    assert decoded_type(NO_FORMATS.value) == pa.binary()


def test_options_of_the_source_know_those_of_formats() -> None:
    options = {
        "kafka.bootstrap.servers": "localhost:1",
        "subscribe": "orders",
        "VALUEFORMAT": "JSON",
        "valueschema": "id bigint",
        "keyFormat": "string",
        "deadLetterTopic": "orders.dead",
        "deadLetterMax": "10",
    }
    formats = SourceOptions.parse(options).formats
    assert (formats.value.format, formats.value.schema) == ("json", "id bigint")
    assert (formats.dead_letter_topic, formats.dead_letter_max) == ("orders.dead", 10)
    assert decoded_type(formats.key) == pa.string()
    assert pickle.loads(pickle.dumps(formats)) == formats
    assert {name.lower() for name in options} - {"kafka.bootstrap.servers", "subscribe"} <= {
        name.lower() for name in format_option_names()
    }
    with pytest.raises(BadOption, match="did you mean valueFormat"):
        SourceOptions.parse({**options, "valueFromat": "json"})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "xml"}, "'xml' is none; known: raw, string, json, avro, protobuf"),
        ({"valueFormat": "json"}, "needs valueSchema, valueSchemaFile or schemaRegistry"),
        ({"valueSchema": "a int"}, "valueFormat=raw has no schema"),
        ({"valueFormat": "json", "valueSchema": "a int", "valueSchemaFile": "x"}, "exclude"),
        ({"valueFormat": "json", "valueSchemaFile": "/none/there"}, "No such file"),
        ({"valueFormat": "protobuf", "valueSchema": "message A {}"}, "needs a descriptor set"),
        ({"valueFormat": "string", "deadLetterMax": "0"}, "a number above 0, got '0'"),
        ({"deadLetterTopic": "d"}, "no record is bad"),
        (
            {"valueFormat": "string", "deadLetterTopic": "d", "subscribe": "a, d"},
            "its own dead letters",
        ),
        (
            {"valueFormat": "string", "deadLetterTopic": "a.d", "subscribePattern": "a.*"},
            "its own dead letters",
        ),
        ({"valueFormat": "avro", "schemaRegistry": "ftp://host"}, "no http or https address"),
        ({"schemaRegistryUser": "me"}, "without schemaRegistry"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        FormatOptions.parse(options)


def test_schemas_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptors())
    options = {"valueFormat": "protobuf", "valueSchemaFile": str(tmp_path / "shop.desc")}
    with pytest.raises(BadOption, match="messageName"):
        FormatOptions.parse(options)
    formats = FormatOptions.parse({**options, "messageName": "shop.Other"}).reading()
    assert decoded_type(formats.value) == pa.struct([("x", pa.int32())])
    (tmp_path / "a.ddl").write_text("id bigint")
    options = {"valueFormat": "json", "valueSchemaFile": str(tmp_path / "a.ddl")}
    assert decoded_type(FormatOptions.parse(options).value) == parse_columns("id bigint")


def test_columns_are_made_from_the_latest_of_the_subject(server: RegistryServer) -> None:
    registry = {"schemaRegistry": server.url, "subscribe": "orders"}
    server.add("orders-value", "AVRO", '"long"')
    latest = server.add("orders-value", "AVRO", '"string"')
    formats = FormatOptions.parse({**registry, "valueFormat": "avro"}).reading()
    assert decoded_type(formats.value) == pa.string()
    assert formats.value.schema_id == latest
    server.add("shop", "PROTOBUF", base64.b64encode(shop_file().SerializeToString()).decode())
    options = {**registry, "valueFormat": "protobuf", "valueSubject": "shop"}
    first = FormatOptions.parse(options).reading().value
    assert first.message_name == "shop.Other"
    second = FormatOptions.parse({**options, "messageName": "shop.Order"}).reading().value
    assert second.message_name == "shop.Order"
    with pytest.raises(BadOption, match="holds PROTOBUF, not JSON"):
        FormatOptions.parse({**options, "valueFormat": "json"}).reading()
    with pytest.raises(RegistryError, match="Subject 'orders-key' not found"):
        FormatOptions.parse({**registry, "keyFormat": "avro"}).reading()
    with pytest.raises(BadOption, match="which subject"):
        FormatOptions.parse({**registry, "subscribe": "a,b", "valueFormat": "avro"}).reading()


def test_an_avro_schema_is_read_with_what_it_refers_to(server: RegistryServer) -> None:
    inner = {"type": "record", "name": "n.Inner", "fields": [{"name": "x", "type": "int"}]}
    outer = {
        "type": "record",
        "name": "n.Outer",
        "fields": [{"name": "a", "type": "n.Inner"}, {"name": "b", "type": "n.Inner"}],
    }
    server.add("inner", "AVRO", json.dumps(inner))
    reference = {"name": "n.Inner", "subject": "inner", "version": 1}
    server.add("orders-value", "AVRO", json.dumps(outer), [reference])
    options = {"schemaRegistry": server.url, "subscribe": "orders", "valueFormat": "avro"}
    formats = FormatOptions.parse(options).reading()
    row = {"a": {"x": 1}, "b": {"x": 2}}
    batch = pa.record_batch({"value": pa.array([row], decoded_type(formats.value))})
    written = pa.record_batch({"value": encode_column(batch.column("value"), formats.value).array})
    good, dead = decode_values(written, formats.values)
    assert (good.to_pylist(), dead.num_rows) == ([{"value": row}], 0)


@pytest.mark.parametrize("name", ["avro", "json"])
def test_what_is_written_registers_its_schema_and_is_read_again(
    server: RegistryServer, name: str
) -> None:
    common = {"schemaRegistry": server.url, "valueFormat": name}
    kind = parse_columns("id bigint, tags array<string>")
    writing = FormatOptions.parse({**common, "topic": "orders"}, writing=True).writing(None, kind)
    assert writing.value.schema_id == server.subjects["orders-value"][-1]
    rows = [{"id": 1, "tags": ["a"]}, None]
    batch = pa.record_batch({"value": pa.array(rows, kind)})
    written = pa.record_batch({"value": encode_column(batch.column("value"), writing.value).array})
    reading = FormatOptions.parse({**common, "subscribe": "orders"}).reading()
    good, dead = decode_values(written, reading.values)
    assert good.column("value").to_pylist() == rows
    assert dead.num_rows == 0
    again = FormatOptions.parse({**common, "topic": "orders"}, writing=True).writing(None, kind)
    assert again.value.schema_id == writing.value.schema_id


def test_ddl_is_registered_as_json_schema(server: RegistryServer) -> None:
    options = {"schemaRegistry": server.url, "valueFormat": "json", "topic": "o"}
    formats = FormatOptions.parse({**options, "valueSchema": "id bigint"}, writing=True)
    made = formats.writing(None, parse_columns("id bigint")).value
    assert made.schema_id is not None
    text = server.schemas[made.schema_id]["schema"]
    assert json.loads(text)["properties"]["id"]["oneOf"][1] == {"type": "integer"}


def test_types_that_json_schema_lacks_are_written_the_same_before_and_after_it_is_there(
    server: RegistryServer,
) -> None:
    options = {"schemaRegistry": server.url, "valueFormat": "json", "topic": "o"}
    kind = parse_columns("id int, amount decimal(9, 2), raw binary")
    formats = FormatOptions.parse(options, writing=True)
    first, second = (formats.writing(None, kind).value for _ in range(2))
    assert first == second
    assert decoded_type(first) == kind
    with pytest.raises(BadOption, match="subject o-value: the schema has no field more"):
        formats.writing(None, parse_columns("id int, more string"))
    with pytest.raises(BadOption, match=r"subject o-value\.id is string"):
        formats.writing(None, parse_columns("id string"))


def test_a_protobuf_schema_is_registered_with_what_it_imports(
    server: RegistryServer, tmp_path: Path
) -> None:
    imported = pb.FileDescriptorProto(name="parts.proto", package="parts", syntax="proto3")
    add(imported.message_type.add(name="Part"), "x", F.TYPE_INT32)
    file = pb.FileDescriptorProto(name="car.proto", package="cars", syntax="proto3")
    file.dependency.extend(["parts.proto", "google/protobuf/timestamp.proto"])
    car = file.message_type.add(name="Car")
    add(car, "part", F.TYPE_MESSAGE, ".parts.Part")
    add(car, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    (tmp_path / "cars.desc").write_bytes(descriptors(imported, file))
    options = {
        "schemaRegistry": server.url,
        "valueFormat": "protobuf",
        "valueSchemaFile": str(tmp_path / "cars.desc"),
        "messageName": "cars.Car",
    }
    writing = FormatOptions.parse({**options, "topic": "cars"}, writing=True)
    made = writing.writing(None, decoded_type(writing.value)).value
    assert server.subjects == {"parts.proto": [1], "cars-value": [2]}
    assert made.schema_id == 2
    assert server.schemas[2]["references"] == [
        {"name": "parts.proto", "subject": "parts.proto", "version": 1}
    ]
    rows = [{"part": {"x": 1}, "at": None}, None]
    written = encode_column(pa.array(rows, decoded_type(made)), made).array
    del options["valueSchemaFile"]
    reading = FormatOptions.parse({**options, "subscribe": "cars"}).reading()
    good, dead = decode_values(pa.record_batch({"value": written}), reading.values)
    assert (good.column("value").to_pylist(), dead.num_rows) == (rows, 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "protobuf"}, "needs valueSchema, valueSchemaFile or schemaRegistry"),
        (
            {"valueFormat": "json", "topic": "a", "deadLetterTopic": "a"},
            "write its dead letters among its rows",
        ),
    ],
)
def test_a_sink_that_makes_no_sense_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        FormatOptions.parse(options, writing=True)


def test_json_is_an_object() -> None:
    formats = FormatOptions.parse({"valueFormat": "json"}, writing=True)
    with pytest.raises(BadOption, match="a struct of columns, not int64"):
        formats.writing(None, pa.int64())
