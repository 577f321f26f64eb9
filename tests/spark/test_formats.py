"""Values of each format to columns and back; what is bad is a dead row with a reason."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.messages import F, descriptors, message_class

from ottla.spark.formats.arrow_types import TIMESTAMP, ddl_of, parse_columns
from ottla.spark.formats.avro_types import AvroSchema
from ottla.spark.formats.avro_types import schema_of as avro_schema_of
from ottla.spark.formats.json_schema import columns_of
from ottla.spark.formats.json_schema import schema_of as json_schema_of
from ottla.spark.formats.protobuf_types import type_of
from ottla.spark.formats.spec import EncodeError, FormatError, FormatSpec
from ottla.spark.formats.values import (
    DecodedValues,
    ValuesSpec,
    check_writable,
    decode_values,
    decoded_type,
    encode_column,
)

DDL = (
    "id bigint, small int, name string, price double, ok boolean, day date, at timestamp, "
    "amount decimal(12, 2), tags array<string>, place struct<city: string, zip: int>"
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
STAMP = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ROW = {
    "id": LONG,
    "small": INT,
    "name": TEXT,
    "price": st.floats(allow_nan=False, allow_infinity=False),
    "ok": st.booleans(),
    "day": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "at": STAMP,
    "amount": st.decimals(-(10**9), 10**9, places=2),
    "tags": st.lists(st.none() | TEXT, max_size=3),
    "place": st.fixed_dictionaries({"city": st.none() | TEXT, "zip": st.none() | INT}),
}
ROWS = st.lists(
    st.none() | st.fixed_dictionaries({k: st.none() | v for k, v in ROW.items()}), max_size=5
)


def table(values: Sequence[bytes | None]) -> pa.RecordBatch:
    offsets = pa.array(range(len(values)), pa.int64())
    return pa.record_batch({"value": pa.array(values, pa.binary()), "offset": offsets})


def decode(values: Sequence[bytes | None], spec: FormatSpec) -> DecodedValues:
    return decode_values(table(values), ValuesSpec(value=spec))


def round_trip(rows: list[Any], spec: FormatSpec) -> None:
    column = pa.array(rows, decoded_type(spec))
    encoded = encode_column(column, spec).array
    assert encoded.is_null().to_pylist() == [row is None for row in rows]
    good, dead = decode(encoded.to_pylist(), spec)
    assert dead.num_rows == 0, dead.to_pylist()
    assert good.column("value").to_pylist() == column.to_pylist()
    good.validate(full=True)


# Round trips


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_json_comes_back_as_it_was(rows: list[Any]) -> None:
    round_trip(rows, FormatSpec("json", DDL))


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_json_read_value_by_value_is_the_same(rows: list[Any]) -> None:
    """A map makes the difference: Arrow's reader knows none."""
    spec = FormatSpec("json", DDL + ", more map<string, binary>")
    round_trip(rows, spec)
    more = {"more": [("a", b"\0\xff"), ("b", None)]}
    round_trip([None if row is None else {**row, **more} for row in rows], spec)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_avro_comes_back_as_it_was(rows: list[Any]) -> None:
    round_trip(rows, FormatSpec("avro", avro_schema_of(parse_columns(DDL))))


LINE = st.fixed_dictionaries({"sku": TEXT, "count": INT})
ORDER = {
    "a_double": st.floats(allow_nan=False),
    "a_float": st.floats(width=32, allow_nan=False),
    "a_int64": LONG,
    "a_uint64": st.integers(0, 2**64 - 1).map(Decimal),
    "a_int32": INT,
    "a_uint32": st.integers(0, 2**32 - 1),
    "a_bool": st.booleans(),
    "a_string": TEXT,
    "a_bytes": st.binary(max_size=5),
    "colour": st.sampled_from(["RED", "BLUE", "7"]),
    "line": st.none() | LINE,
    "lines": st.lists(LINE, max_size=2),
    "numbers": st.lists(LONG, max_size=3),
    "tags": st.lists(st.tuples(TEXT, LINE), max_size=2, unique_by=lambda pair: pair[0]),
    "at": st.none() | STAMP,
    "wrapped": st.none() | st.integers(0, 2**64 - 1).map(Decimal),
    "maybe": st.none() | TEXT,
    "times": st.lists(st.tuples(TEXT, STAMP), max_size=2, unique_by=lambda pair: pair[0]),
    "stamps": st.lists(STAMP, max_size=2),
}
ORDERS = st.lists(st.none() | st.fixed_dictionaries(ORDER), max_size=4)
PROTOBUF = FormatSpec("protobuf", None, descriptors(), "shop.Order")


@settings(max_examples=60, deadline=None)
@given(ORDERS)
def test_protobuf_comes_back_as_it_was(rows: list[Any]) -> None:
    ordered = [
        row and {**row, **{name: sorted(row[name], key=_key) for name in ("tags", "times")}}
        for row in rows
    ]
    column = pa.array(ordered, decoded_type(PROTOBUF))
    encoded = encode_column(column, PROTOBUF).array
    good, dead = decode(encoded.to_pylist(), PROTOBUF)
    assert dead.num_rows == 0, dead.to_pylist()
    found = good.column("value").to_pylist()
    for row in found:
        if row is not None:
            row["tags"].sort(key=_key)
            row["times"].sort(key=_key)
    assert found == column.to_pylist()


def _key(pair: tuple[str, Any]) -> str:
    return pair[0]


def test_protobuf_is_what_the_generated_classes_write() -> None:
    order = message_class()(
        a_int64=-5, colour=1, lines=[{"sku": "a", "count": 2}], at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    good, _ = decode([order.SerializeToString(), b""], PROTOBUF)
    first, empty = good.column("value").to_pylist()
    assert (first["a_int64"], first["colour"]) == (-5, "BLUE")
    assert first["lines"] == [{"sku": "a", "count": 2}]
    assert (first["line"], first["maybe"], first["wrapped"]) == (None, None, None)
    assert (empty["a_int64"], empty["a_string"], empty["at"]) == (0, "", None)


# What is bad

SHORT = FormatSpec("json", "id bigint, name string, day date, at timestamp")
MAPPED = FormatSpec("json", "id bigint, name string, day date, at timestamp, m map<string, int>")
BAD_JSON = [
    b"",
    b" ",
    b"{",
    b"}",
    b"[]",
    b"1",
    b"null",
    b'{"id": 1',
    b'{"id": 1]',
    b'{"id": 1}}',
    b'{"id": 1}{"id": 2}',
    b'{"id": 1},{"id": 2}',
    b'{"id": 1}\n{"id": 2}',
    b'{"id": "1"}',
    b'{"id": 1.5}',
    b'{"id": 9223372036854775808}',
    b'{"id": [1]}',
    b'{"id": NaN}',
    b'{"id": 01}',
    b'{"other": NaN}',
    b'{"name": 1}',
    b'{"name": "\xff"}',
    b'{"name": "\\ud800"}',
    b'{"name": "a\nb"}',
    b'{"name": "a}',
    b'{"day": "yesterday"}',
    b'{"at": "soon"}',
    b'{"id": 1, "id": 1}',
    b'{"id": 1, "id": null}',
    b'{"i\\u0064": 1, "name": "", "id": 2}',
    b"\0\1\2",
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"id": ' + b"9" * 100_000 + b"}",
]


@pytest.mark.parametrize("spec", [SHORT, MAPPED], ids=["whole columns", "value by value"])
@pytest.mark.parametrize("value", BAD_JSON, ids=lambda value: repr(value[:20]))
def test_bad_json_is_dead_and_its_neighbours_live(value: bytes, spec: FormatSpec) -> None:
    good, dead = decode([b'{"id": 1}', value, None, b'{"id": 2}'], spec)
    assert dead.column("value").to_pylist() == [value]
    assert dead.column("offset").to_pylist() == [1]
    assert dead.column("errorReason")[0].as_py().startswith("value: ")
    assert good.column("offset").to_pylist() == [0, 2, 3]
    rows = good.column("value").to_pylist()
    assert [row and row["id"] for row in rows] == [1, None, 2]


def test_values_that_together_make_objects_do_not_move_rows() -> None:
    """Each alone is bad, all together are as many objects as there are values."""
    good, dead = decode([b'{"id":', b'{"x":1}}', b'{"id":3}{"id":4}', b'{"id":5}'], SHORT)
    assert dead.num_rows == 3
    assert good.column("value").to_pylist()[0]["id"] == 5


def test_json_over_several_lines_and_with_unknown_fields_is_read() -> None:
    good, dead = decode([b' {\r\n "id" : 1,\n"new": {"a": [1, {}]}}\n'], SHORT)
    assert dead.num_rows == 0
    assert good.column("value").to_pylist()[0]["id"] == 1


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"s": {"a": 1}, "s": {"a": 2}}', "s"),
        (b'{"s": {"a": 1, "a": 2}}', "a"),
        (b'{"l": [{"a": 1}, {"a": 1, "a": 2}]}', "a"),
    ],
)
@pytest.mark.parametrize("more", ["", ", m map<string, int>"], ids=["columns", "values"])
def test_a_field_that_is_there_twice_is_dead(value: bytes, name: str, more: str) -> None:
    spec = FormatSpec("json", f"s struct<a: int>, l array<struct<a: int>>{more}")
    good, dead = decode([value, b'{"s": {"b": 1, "b": 2}, "x": {"a": 1, "a": 2}, "x": 1}'], spec)
    assert dead.column("value").to_pylist() == [value]
    reason = dead.column("errorReason")[0].as_py()
    assert name in reason
    assert reason.endswith("was specified twice")
    assert good.num_rows == 1, "what is not read may be there as often as it likes"


def test_a_key_of_a_map_that_is_there_twice_is_dead() -> None:
    good, dead = decode([b'{"m": {"a": 1, "a": 2}}', b'{"m": {"a": 1}}'], MAPPED)
    assert dead.num_rows == good.num_rows == 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=30) | st.sampled_from(BAD_JSON[:-2]), max_size=8))
def test_whatever_comes_as_json_each_row_is_one_value(values: list[bytes]) -> None:
    for spec in (SHORT, MAPPED):
        marked = [b'{"id": %d}' % i if i % 2 else value for i, value in enumerate(values)]
        good, dead = decode(marked, spec)
        assert good.num_rows + dead.num_rows == len(values)
        offsets = good.column("offset").to_pylist()
        assert {i for i in range(len(values)) if i % 2} <= set(offsets)
        for offset, row in zip(offsets, good.column("value").to_pylist(), strict=True):
            if offset % 2:
                assert row["id"] == offset


AVRO = FormatSpec("avro", avro_schema_of(parse_columns(DDL)))
FULL: dict[str, Any] = {
    "id": 1,
    "small": 2,
    "name": "some name",
    "price": 1.5,
    "ok": True,
    "day": date(2020, 1, 1),
    "at": datetime(2020, 1, 1, tzinfo=UTC),
    "amount": Decimal("12.50"),
    "tags": ["a", None],
    "place": {"city": "Linz", "zip": 4020},
}


def encoded(spec: FormatSpec, row: dict[str, Any]) -> bytes:
    column = pa.array([row], decoded_type(spec))
    found: bytes = encode_column(column, spec).array[0].as_py()
    return found


def test_avro_that_is_cut_or_too_long_is_dead() -> None:
    whole = encoded(AVRO, FULL)
    cuts = [whole[:i] for i in range(len(whole))]
    good, dead = decode([*cuts, whole + b"\0", whole], AVRO)
    assert good.column("value").to_pylist() == [FULL]
    assert dead.num_rows == len(whole) + 1
    assert set(dead.column("errorClass").to_pylist()) == {"BadAvro"}


def test_avro_with_huge_lengths_is_dead() -> None:
    spec = FormatSpec("avro", '{"type": "array", "items": "boolean"}')
    text = FormatSpec("avro", '"string"')
    huge = bytes([0xFE] + [0xFF] * 8 + [0x01])
    least = bytes([0xFF] * 9 + [0x01])
    for each in (spec, text):
        _, dead = decode([huge, least, huge + b"\1" * 50, least + huge + b"\1" * 50], each)
        assert dead.num_rows == 4


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_whatever_comes_as_avro_or_protobuf_is_a_row_or_dead(values: list[bytes]) -> None:
    for spec in (AVRO, PROTOBUF):
        good, dead = decode(list(values), spec)
        good.validate(full=True)
        assert good.num_rows + dead.num_rows == len(values)


def test_protobuf_that_is_cut_garbled_or_too_deep_is_dead() -> None:
    whole = encoded(PROTOBUF, {"a_string": "text", "at": datetime(2020, 1, 1, tzinfo=UTC)})
    bad = [whole[:-1], b"\xff" * 10, b"\x42\x02\xff\xff", b"\x42\xff\xff\xff\xff\x0f"]
    late = message_class()(at={"seconds": 2**62}).SerializeToString()
    good, dead = decode([*bad, late, whole], PROTOBUF)
    assert good.num_rows == 1
    assert dead.num_rows == 5
    assert set(dead.column("errorClass").to_pylist()) == {"BadProtobuf"}


def test_text_that_is_none_is_dead() -> None:
    good, dead = decode([b"a", b"\xff", None], FormatSpec("string"))
    assert good.column("value").to_pylist() == ["a", None]
    assert dead.column("errorReason").to_pylist() == ["value: no UTF-8: invalid start byte"]


def test_a_bad_key_is_enough() -> None:
    keys = pa.array([b"\xff", b"k"], pa.binary())
    batch = pa.record_batch({"key": keys, "value": pa.array([b"v", None], pa.binary())})
    good, dead = decode_values(batch, ValuesSpec(key=FormatSpec("string")))
    assert good.to_pylist() == [{"key": "k", "value": None}]
    assert [(row["key"], row["value"]) for row in dead.to_pylist()] == [(b"\xff", b"v")]


def test_a_slice_of_a_table_is_decoded_as_it_is() -> None:
    values = table([b'{"id": 1}', b"bad", b'{"id": 3}', None])
    good, dead = decode_values(values.slice(1), ValuesSpec(value=SHORT))
    assert good.column("offset").to_pylist() == [2, 3]
    assert dead.column("offset").to_pylist() == [1]


@pytest.mark.parametrize("spec", [SHORT, MAPPED, AVRO, PROTOBUF, FormatSpec("string")])
def test_a_table_without_rows_keeps_its_types(spec: FormatSpec) -> None:
    good, dead = decode([], spec)
    assert (good.num_rows, dead.num_rows) == (0, 0)
    assert good.schema.field("value").type == decoded_type(spec)


# Rows that cannot be written


@pytest.mark.parametrize(
    ("spec", "row", "reason"),
    [
        (FormatSpec("json", "x double"), {"x": float("nan")}, "Out of range"),
        (FormatSpec("json", "x int"), {"x": 1 << 40}, "not in range"),
        (
            FormatSpec(
                "avro",
                '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}',
            ),
            {"x": None},
            "TypeError",
        ),
        (PROTOBUF, {"colour": "GREEN"}, "GREEN"),
        (PROTOBUF, {"numbers": [None]}, "NoneType"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_name(
    spec: FormatSpec, row: dict[str, Any], reason: str
) -> None:
    array = pa.array([row])
    good = pa.nulls(1, array.type)
    encoded, faults = encode_column(pa.concat_arrays([good, array, good]), spec)
    assert encoded.to_pylist() == [None, None, None]
    assert [each.row for each in faults] == [1]
    assert reason in faults[0].reason


@pytest.mark.parametrize(
    ("kind", "schema", "reason"),
    [
        ("y int", "x int", r"column value: the schema has no field y, only x"),
        ("x string", "x int", r"column value\.x is string, the schema has int32: cast it"),
        ("x double", "x int", r"column value\.x is double"),
        ("x timestamp_ntz", "x timestamp", r"column value\.x is timestamp\[us\]"),
        (
            "x array<struct<y: string>>",
            "x array<struct<y: int>>",
            r"column value\.x\[\]\.y is string",
        ),
        ("x map<string, string>", "x map<string, int>", r"column value\.x\.value is string"),
    ],
)
def test_columns_of_another_schema_are_refused_before_any_row(
    kind: str, schema: str, reason: str
) -> None:
    with pytest.raises(EncodeError, match=reason):
        check_writable(parse_columns(kind), FormatSpec("json", schema), "column value")


def test_fields_are_found_by_name_and_what_rows_lack_is_null() -> None:
    spec = FormatSpec("json", "a bigint, b array<struct<x: bigint, y: string>>, c double, d date")
    kind = parse_columns("c int, b array<struct<y: string, x: int>>, a tinyint")
    rows: list[dict[str, Any] | None] = [
        {"c": 1, "b": [{"y": "u", "x": 1}, None], "a": 1},
        None,
        {"c": None, "b": None, "a": 2},
        {"c": 2, "b": [], "a": None},
    ]
    check_writable(kind, spec, "value")
    encoded, faults = encode_column(pa.array(rows, kind).slice(1), spec)
    assert not faults
    assert encoded.to_pylist() == [None, b'{"a":2}', b'{"b":[],"c":2.0}']
    encoded, faults = encode_column(pa.array(rows, kind), spec)
    assert encoded[0].as_py() == b'{"a":1,"b":[{"x":1,"y":"u"},null],"c":1.0}'


def test_ddl_made_of_types_is_read_as_the_same_types() -> None:
    text = "`a b` map<string, array<decimal(9, 2)>>, c struct<`d``e`: binary, f: timestamp_ntz>"
    assert parse_columns(ddl_of(parse_columns(text))) == parse_columns(text)
    assert parse_columns(ddl_of(parse_columns(DDL))) == parse_columns(DDL)


# Types


def test_ddl_json_of_spark_and_json_schema_say_the_same() -> None:
    kind = parse_columns("a bigint NOT NULL COMMENT 'it''s', `b c` struct<x: array<double>>")
    spark = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "long", "nullable": False, "metadata": {}},
            {
                "name": "b c",
                "type": {
                    "type": "struct",
                    "fields": [
                        {"name": "x", "type": {"type": "array", "elementType": "double"}},
                    ],
                },
            },
        ],
    }
    assert columns_of(json.dumps(spark)) == kind
    assert columns_of(json_schema_of(kind)) == kind
    assert kind.field("a").type == pa.int64()
    stamped = parse_columns("t timestamp, n timestamp_ntz, d decimal(5,1), m map<string, date>")
    assert [each.type for each in stamped][:3] == [
        TIMESTAMP,
        pa.timestamp("us"),
        pa.decimal128(5, 1),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "a", "a strin", "a int b int", "a struct<>", "a array<int", "a int, a int", "a int;",
     "a decimal(40, 2)", "{", '{"type": "struct"}', "a " + "array<" * 100 + "int" + ">" * 100,
     '{"type": "string"}', '{"type": "object"}', '{"$ref": "#"}', '{"$ref": "#/a", "a": 1}',
     '{"properties": {"a": {"$ref": "#"}}}', '{"oneOf": 5}', '{"properties": 5}', '{"enum": 5}',
     '{"type": {}}'],
)  # fmt: skip
def test_a_schema_of_json_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        decoded_type(FormatSpec("json", text))


NOTHING_BY_NAME = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "nothing", "type": {"type": "fixed", "name": "F", "size": 0}},
            {
                "name": "many",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "X",
                        "fields": [{"name": "nothing", "type": "F"}],
                    },
                },
            },
        ],
    }
)
"""An array of records whose only field takes no bytes, which only its definition tells."""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '"strin"',
        '"null"',
        '["int", "string"]',
        '{"type": "array", "items": "null"}',
        '{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}',
        '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}',
        NOTHING_BY_NAME,
        '{"type": "bytes", "logicalType": "decimal"}',
        "[" * 10_000,
    ],
)
def test_an_avro_schema_without_bound_or_sense_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        decoded_type(FormatSpec("avro", text))


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"\xff", "shop.Order"), (b"", "shop.Order"), (descriptors(), "shop.None")],
)
def test_descriptors_that_hold_no_such_message_are_refused(content: bytes, name: str) -> None:
    with pytest.raises(FormatError):
        decoded_type(FormatSpec("protobuf", None, content, name))


@pytest.mark.parametrize("leaf", ["int", "null"])
def test_an_avro_schema_that_doubles_with_each_name_is_refused_soon(leaf: str) -> None:
    fields = [{"name": "leaf", "type": leaf}]
    texts = [json.dumps({"type": "record", "name": "R0", "fields": fields})]
    for level in range(1, 60):
        fields = [{"name": side, "type": f"R{level - 1}"} for side in ("left", "right")]
        texts.append(json.dumps({"type": "record", "name": f"R{level}", "fields": fields}))
    texts.append(json.dumps({"type": "array", "items": "R59"} if leaf == "null" else "R59"))
    with pytest.raises(FormatError, match="too many types"):
        AvroSchema(texts)


def test_a_message_that_doubles_with_each_name_is_refused_soon() -> None:
    file = pb.FileDescriptorProto(name="bomb.proto", package="bomb", syntax="proto3")
    for level in range(60):
        message = file.message_type.add(name=f"M{level}")
        for number, side in enumerate(("left", "right"), 1):
            field = message.field.add(name=side, number=number, label=1)
            field.type = F.TYPE_MESSAGE if level else F.TYPE_INT32
            if level:
                field.type_name = f".bomb.M{level - 1}"
    pool = DescriptorPool()
    pool.Add(file)
    assert type_of(pool.FindMessageTypeByName("bomb.M3"))
    with pytest.raises(FormatError, match="more than 10000 fields"):
        type_of(pool.FindMessageTypeByName("bomb.M59"))
