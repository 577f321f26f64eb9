"""Avro schemas: parsed, bounded, and as types of Arrow.

A schema comes from outside as much as the values do. One that refers to itself is refused (its
values may be nested until the stack ends), and so is an array of nothing (whose length no byte
pays for).
"""

import json
from collections.abc import Iterable
from typing import Any, Final

import fastavro
import pyarrow as pa

from ottla.spark.formats.arrow_types import (
    DEPTH_MAX,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TYPES_MAX,
    decimal_of,
    list_of,
    map_of,
    struct_of,
)
from ottla.spark.formats.spec import FormatError

_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
}
KEPT: Final = frozenset({"decimal"})
"""Logical types that Arrow cannot make from the plain number."""
KEPT_ON_CHANGE: Final = frozenset({"decimal", *(name for _, name in _LOGICAL)})
"""With two schemas the units may differ, and only the logical types tell."""


class AvroSchema:
    """A schema with all that it refers to."""

    def __init__(self, texts: Iterable[str]) -> None:
        """``texts``: what is referred to first, the schema itself last."""
        self._names: dict[str, Any] = {}
        self.parsed: Any = None
        for text in texts:
            try:
                self.parsed = fastavro.parse_schema(json.loads(text), self._names)
            except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
                raise FormatError(f"no Avro schema: {error}") from error
            except fastavro.schema.SchemaParseException as error:
                raise FormatError(f"no Avro schema: {error}") from error
            except fastavro.schema.UnknownType as error:
                raise FormatError(f"Avro schema: the type {error.name} is unknown") from error
        self._types = 0
        self.raw_type = self._type(self.parsed, ())
        """As read: milliseconds stay milliseconds."""

    def stripped(self, kept: frozenset[str]) -> Any:
        """The schema without the logical types that are not ``kept``, names resolved."""
        return fastavro.parse_schema(self._strip(self.parsed, kept, set()), {})

    def whole(self) -> str:
        """As one text, with all that it refers to in it."""
        return json.dumps(self._strip(self.parsed, None, set()))

    def _strip(self, schema: Any, kept: frozenset[str] | None, defined: set[str]) -> Any:
        if isinstance(schema, list):
            return [self._strip(each, kept, defined) for each in schema]
        if isinstance(schema, str):
            if schema not in self._names or schema in defined:
                return schema
            schema = self._names[schema]
        made = {
            name: value
            for name, value in schema.items()
            if not name.startswith("__")
            and (name != "logicalType" or kept is None or value in kept)
        }
        kind = made["type"]
        if "name" in made:
            if made["name"] in defined:
                return made["name"]
            defined.add(made["name"])
        if kind in {"record", "error"}:
            made["fields"] = [
                {**each, "type": self._strip(each["type"], kept, defined)}
                for each in made["fields"]
            ]
        elif kind == "array":
            made["items"] = self._strip(made["items"], kept, defined)
        elif kind == "map":
            made["values"] = self._strip(made["values"], kept, defined)
        return made

    def _type(self, schema: Any, within: tuple[str, ...]) -> pa.DataType:
        self._types += 1
        if len(within) > DEPTH_MAX or self._types > TYPES_MAX:
            raise FormatError("the Avro schema is nested too deeply, or has too many types")
        if isinstance(schema, list):
            return self._union(schema, within)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            if schema not in self._names:
                raise FormatError(f"Avro: {schema!r} alone is no type of a column")
            schema = self._names[schema]
        kind = schema["type"]
        if kind in {"record", "error"}:
            name = schema["name"]
            if name in within:
                raise FormatError(f"Avro: {name} refers to itself, which no column can")
            inner = (*within, name)
            return struct_of((e["name"], self._type(e["type"], inner)) for e in schema["fields"])
        if kind == "array":
            if not self._takes_bytes(schema["items"]):
                raise FormatError("Avro: an array of elements without bytes has no bound")
            return list_of(self._type(schema["items"], (*within, "")))
        if kind == "map":
            return map_of(pa.string(), self._type(schema["values"], (*within, "")))
        if schema.get("logicalType") == "decimal" and kind in {"bytes", "fixed"}:
            return decimal_of(int(schema.get("precision", 0)), int(schema.get("scale", 0)))
        if kind == "fixed":
            return pa.binary()
        if kind == "enum":
            return pa.string()
        if kind not in _PRIMITIVES:
            raise FormatError(f"Avro: {kind!r} alone is no type of a column")
        return _LOGICAL.get((kind, str(schema.get("logicalType"))), _PRIMITIVES[kind])

    def _union(self, branches: list[Any], within: tuple[str, ...]) -> pa.DataType:
        kinds = [self._type(each, within) for each in branches if _name(each) != "null"]
        if len(kinds) != 1:
            raise FormatError("Avro: a union of several types is no column; with null it is one")
        return kinds[0]

    def _takes_bytes(self, schema: Any, within: tuple[str, ...] = ()) -> bool:
        """Whether every value takes any."""
        self._types += 1
        if self._types > TYPES_MAX:
            raise FormatError("the Avro schema has too many types")
        if isinstance(schema, str) and schema in self._names:
            schema = self._names[schema]
        if isinstance(schema, dict) and schema["type"] in {"record", "error"}:
            name = schema["name"]
            fields = () if name in within else schema["fields"]  # within itself it adds nothing
            return any(self._takes_bytes(each["type"], (*within, name)) for each in fields)
        if isinstance(schema, dict) and schema["type"] == "fixed":
            return int(schema["size"]) > 0
        return _name(schema) != "null"


def final_type(kind: pa.DataType) -> pa.DataType:
    """As Spark has it: time in microseconds."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, final_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return map_of(kind.key_type, final_type(kind.item_type))
    if pa.types.is_list(kind):
        return list_of(final_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind


def schema_of(kind: pa.DataType, name: str = "topLevelRecord") -> str:
    """An Avro schema for these columns, every field nullable."""
    return json.dumps(_schema(kind, name))


def _schema(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [
            {
                "name": each.name,
                "type": ["null", _schema(each.type, f"{name}_{each.name}")],
                "default": None,
            }
            for each in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _schema(kind.value_type, f"{name}_element")]}
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise FormatError(f"Avro: keys of a map are strings, not {kind.key_type}")
        return {"type": "map", "values": ["null", _schema(kind.item_type, f"{name}_value")]}
    if pa.types.is_decimal(kind):
        scale = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **scale}
    for (plain, logical), known in _LOGICAL.items():
        if kind == known:
            return {"type": plain, "logicalType": logical}
    if kind in {pa.int8(), pa.int16()}:
        return "int"
    for plain, known in _PRIMITIVES.items():
        if kind == known:
            return plain
    raise FormatError(f"Avro has no type for {kind}")


def _name(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(isinstance(schema, dict) and schema["type"])
