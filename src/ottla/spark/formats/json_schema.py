"""JSON Schema, as registries hold it, to columns and back.

Only what says something about types is read; limits, patterns and the like are not checked.
"""

import json
from typing import Any, Final

import pyarrow as pa

from ottla.spark.formats.arrow_types import (
    DEPTH_MAX,
    TIMESTAMP,
    decimal_of,
    list_of,
    map_of,
    parse_columns,
    struct_of,
)
from ottla.spark.formats.spec import FormatError

_SIMPLE: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_STRING_FORMATS: Final = {"date-time": TIMESTAMP, "date": pa.date32()}


def columns_of(text: str) -> pa.DataType:
    """A struct from DDL, Spark's JSON or JSON Schema, whichever it is."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return parse_columns(stripped)
    try:
        schema = json.loads(stripped)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the schema is no JSON: {error}") from error
    if schema.get("type") == "struct":
        return parse_columns(stripped)
    try:
        kind = _type_of(schema, schema, 0)
    except (TypeError, AttributeError) as error:
        raise FormatError(f"no JSON Schema: {error}") from error
    if not pa.types.is_struct(kind):
        raise FormatError("the JSON Schema describes no object with properties")
    return kind


def is_json_schema(text: str) -> bool:
    """Or DDL, or Spark's JSON."""
    stripped = text.strip()
    return stripped.startswith("{") and json.loads(stripped).get("type") != "struct"


def schema_of(kind: pa.DataType) -> str:
    """The JSON Schema of what the encoder writes for these columns."""
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **_schema(kind)})


def _type_of(schema: Any, root: Any, depth: int) -> pa.DataType:
    if depth > DEPTH_MAX:
        raise FormatError("the JSON Schema refers to itself, or is nested too deeply")
    if not isinstance(schema, dict):
        raise FormatError(f"JSON Schema: {str(schema)[:80]} says nothing of a type")
    if "$ref" in schema:
        return _type_of(_resolve(str(schema["$ref"]), root), root, depth + 1)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            branches = [each for each in schema[word] if each != {"type": "null"}]
            if len(branches) != 1:
                raise FormatError(f"JSON Schema: {word} of several types is no column")
            return _type_of(branches[0], root, depth + 1)
    name = schema.get("type")
    if isinstance(name, list):
        names = [each for each in name if each != "null"]
        name = names[0] if len(names) == 1 else None
    if name is None and "properties" in schema:
        name = "object"
    if name is None and "enum" in schema and all(isinstance(each, str) for each in schema["enum"]):
        name = "string"
    if name == "object":
        return _object_of(schema, root, depth)
    if name == "array":
        return list_of(_type_of(schema.get("items"), root, depth + 1))
    if name == "string":
        return _STRING_FORMATS.get(str(schema.get("format")), pa.string())
    if name not in _SIMPLE:
        raise FormatError(f"JSON Schema: {str(schema)[:80]} is no type of a column")
    return _SIMPLE[name]


def _object_of(schema: dict[str, Any], root: Any, depth: int) -> pa.DataType:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        return struct_of(
            (name, _type_of(each, root, depth + 1)) for name, each in properties.items()
        )
    if isinstance(others, dict):
        return map_of(pa.string(), _type_of(others, root, depth + 1))
    raise FormatError("JSON Schema: an object without properties is no column")


def _resolve(reference: str, root: Any) -> Any:
    if not reference.startswith("#/"):
        raise FormatError(f"JSON Schema: {reference} is outside of the document")
    found = root
    for part in reference[2:].split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        raise FormatError(f"JSON Schema: {reference} leads nowhere")
    return found


def _schema(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        fields = {each.name: _nullable(_schema(each.type)) for each in kind}
        return {"type": "object", "properties": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(_schema(kind.value_type))}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _nullable(_schema(kind.item_type))}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_date(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_decimal(kind):
        decimal_of(kind.precision, kind.scale)
    return {"type": "string"}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}
