"""Values behind the frame of a registry: read by the schema of their id, or dead with a reason."""

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.messages import descriptors, shop_file
from tests.spark.registry_server import RegistryServer
from tests.spark.test_formats import decode, encoded

from ottla.spark.formats.framing import BadFrame, frame, read_frame, read_indexes, write_indexes
from ottla.spark.formats.spec import FormatError, FormatSpec
from ottla.spark.registry import RegistryError, RegistrySettings, RegistryUnavailable


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=5).map(tuple))
def test_message_indexes_come_back(indexes: tuple[int, ...]) -> None:
    written = frame(7) + write_indexes(indexes)
    assert read_frame(written) == (7, 5)
    assert read_indexes(written, 5) == (indexes, len(written))
    for cut in range(5, len(written)):
        with pytest.raises(BadFrame):
            read_indexes(written[:cut], 5)


def test_the_first_message_takes_one_byte() -> None:
    assert write_indexes((0,)) == b"\0"
    assert read_indexes(b"\0", 0) == ((0,), 1)
    assert read_indexes(b"\2\0", 0) == ((0,), 2)
    for bad in (b"\1", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9):
        with pytest.raises(BadFrame):
            read_indexes(bad, 0)


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as made:
        yield made


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def test_avro_is_read_by_the_schema_it_was_written_with(server: RegistryServer) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    old = record({"name": "id", "type": "int"}, {"name": "at", "type": millis})
    new = record(
        {"name": "id", "type": "long"},
        {"name": "at", "type": micros},
        {"name": "name", "type": "string", "default": "?"},
    )
    settings = RegistrySettings((server.url,))
    ids = [server.add("s", "AVRO", text) for text in (old, new)]
    now = datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC)
    written = [
        encoded(FormatSpec("avro", old, registry=settings, schema_id=ids[0]), {"id": 1, "at": now}),
        encoded(
            FormatSpec("avro", new, registry=settings, schema_id=ids[1]),
            {"id": 2, "at": now, "name": "n"},
        ),
    ]
    assert written[0][:5] == struct.pack(">bI", 0, ids[0])
    good, dead = decode(list(written), FormatSpec("avro", new, registry=settings))
    assert dead.num_rows == 0, dead.to_pylist()
    assert good.column("value").to_pylist() == [
        {"id": 1, "at": now, "name": "?"},
        {"id": 2, "at": now, "name": "n"},
    ]
    good, dead = decode(list(written), FormatSpec("avro", old, registry=settings))
    assert good.column("value").to_pylist() == [{"id": 1, "at": now}]
    assert dead.num_rows == 1, "a long is not read as an int"


def test_frames_that_are_none_and_ids_that_nobody_knows_are_dead(server: RegistryServer) -> None:
    settings = RegistrySettings((server.url,))
    avro = server.add("a", "AVRO", '"string"')
    other = server.add("j", "JSON", '{"properties": {"id": {"type": "integer"}}}')
    shown = {
        "avro": FormatSpec("avro", '"string"', registry=settings),
        "json": FormatSpec("json", "id bigint", registry=settings),
        "protobuf": FormatSpec("protobuf", None, descriptors(), "shop.Order", settings),
    }
    asked = len(server.requests)
    for name, spec in shown.items():
        wrong = other if name != "json" else avro
        bad = [b"", b"\0\0", b"\1\0\0\0\1x", *[frame(9_999) + b"\0"] * 50, frame(wrong) + b"\0\0"]
        good, dead = decode(list(bad), spec)
        assert good.num_rows == 0
        reasons = dead.column("errorReason").to_pylist()
        assert "too few" in reasons[0]
        assert "magic byte 1" in reasons[2]
        assert "status 404" in reasons[3]
        assert "is one of" in reasons[-1]
    assert len(server.requests) - asked <= 2 * len(shown), "an unknown id is asked for once a table"


def test_json_behind_a_frame_is_read(server: RegistryServer) -> None:
    settings = RegistrySettings((server.url,))
    number = server.add("j2", "JSON", '{"properties": {"id": {"type": "integer"}}}')
    spec = FormatSpec("json", "id bigint", registry=settings, schema_id=number)
    values = [encoded(spec, {"id": 5}), frame(number) + b"{", None]
    good, dead = decode(values, spec)
    assert good.column("value").to_pylist() == [{"id": 5}, None]
    assert dead.num_rows == 1


def test_a_registry_that_is_silent_kills_no_record() -> None:
    settings = RegistrySettings(("http://127.0.0.1:1",), timeout_s=0.1)
    spec = FormatSpec("avro", '"string"', registry=settings)
    with pytest.raises(RegistryUnavailable):
        decode([frame(1) + b"\0"], spec)


@pytest.mark.parametrize(
    "spec",
    [
        FormatSpec("avro", '"string"'),
        FormatSpec("json", "id bigint"),
        FormatSpec("protobuf", None, descriptors(), "shop.Order"),
    ],
    ids=lambda spec: spec.format,
)
def test_a_registry_that_refuses_kills_no_record(spec: FormatSpec) -> None:
    with RegistryServer() as server:
        server.credentials = "me:secret"
        settings = RegistrySettings((server.url,))
        with pytest.raises(RegistryError, match="status 401 Unauthorized"):
            decode([frame(1) + b"\0"], replace(spec, registry=settings))


def test_a_schema_that_refers_to_too_much_kills_only_its_record(server: RegistryServer) -> None:
    number = server.add("s", "AVRO", '"S"', [{"name": "S", "subject": "s", "version": 1}])
    spec = FormatSpec("avro", '"string"', registry=RegistrySettings((server.url,)))
    _, dead = decode([frame(number) + b"\0"], spec)
    assert dead.column("errorClass").to_pylist() == ["UnknownSchema"]


def test_protobuf_behind_a_frame_names_its_message(server: RegistryServer) -> None:
    text = base64.b64encode(shop_file().SerializeToString()).decode()
    number = server.add("orders-value", "PROTOBUF", text)
    settings = RegistrySettings((server.url,))
    order = FormatSpec("protobuf", None, descriptors(), "shop.Order", settings, schema_id=number)
    line = replace(order, message_name="shop.Order.Line")
    value, nested = encoded(order, {"a_int64": 7}), encoded(line, {"sku": "a"})
    assert value[5:7] == b"\2\2", "the second message of the file"
    assert nested[5:8] == b"\4\2\0", "and the first within it"
    lost, cut = frame(number) + b"\2\x20", frame(number) + b"\4\2"
    good, dead = decode([value, nested, lost, cut], order)
    assert [row["a_int64"] for row in good.column("value").to_pylist()] == [7]
    assert dead.column("errorReason").to_pylist() == [
        "value: holds a message shop.Order.Line, not shop.Order",
        f"value: schema {number}: message indexes [16] lead nowhere in the schema",
        "value: the message indexes are cut",
    ]
    good, dead = decode([nested], line)
    assert good.column("value").to_pylist() == [{"sku": "a", "count": 0}]


def test_a_registry_with_the_text_of_protobuf_alone_is_refused(server: RegistryServer) -> None:
    number = server.add("text", "PROTOBUF", 'syntax = "proto3"; message Order {}')
    settings = RegistrySettings((server.url,))
    spec = FormatSpec("protobuf", None, descriptors(), "shop.Order", settings)
    with pytest.raises(FormatError, match="text only"):
        decode([frame(number) + b"\0"], spec)
