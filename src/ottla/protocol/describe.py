"""Any message as JSON and back, in the very form of Apache Kafka's JsonConverter.

Fields appear in the order of the schema under their camel-case names; tagged fields only where they
differ from their default; bytes as base64, UUIDs as 22 characters. Unknown tagged fields have no
JSON form, there as here.
"""

import base64
import binascii
from typing import Any

from ottla.common.identifiers import ZERO_UUID, uuid_from_text, uuid_text
from ottla.protocol.generated.index import MODULES
from ottla.protocol.message import Message, Struct
from ottla.protocol.schema_reader import Field, MessageSchema, StructSchema, Versions
from ottla.protocol.schemas import schema_of, struct_class

Json = Any
_NOT_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def to_json(message: Message, version: int) -> dict[str, Json]:
    """ValueError when the message says something that the version cannot."""
    schema = schema_of(type(message).__name__)
    _check_version(schema, version)
    return _struct_to_json(schema.root, message, version)


def from_json(name: str, value: Json, version: int) -> Message:
    """ValueError, which names the field, when ``value`` is no such message."""
    if name not in MODULES:
        raise ValueError(f"no message is called {name!r}")
    schema = schema_of(name)
    _check_version(schema, version)
    message = _Parser(schema, version).struct(schema.root, value, name)
    assert isinstance(message, Message)
    return message


def _check_version(schema: MessageSchema, version: int) -> None:
    if version not in schema.versions:
        low, high = schema.versions
        raise ValueError(f"{schema.name} has no version {version}, only {low} to {high}")


def default_of(item: Field) -> Json:
    """The default as a Python value; a struct's default is None here, and made where needed."""
    if item.default == "null" or (item.type == "records" and not item.nullable.empty):
        return None
    if item.array:
        return []
    defaults = {"bool": item.default == "true", "string": "", "uuid": ZERO_UUID, "float64": 0.0}
    if item.type in ("bytes", "records"):
        return b""
    if item.type in defaults:
        return defaults[item.type]
    return int(item.default or "0", 0)


def is_default(item: Field, value: Any) -> bool:
    if item.struct is not None and not item.array and item.default != "null":
        return value is not None and bool(value == type(value)())
    return bool(value == default_of(item))


def _struct_to_json(schema: StructSchema, struct: Struct, version: int) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for item in schema.fields:
        value = getattr(struct, item.name)
        if version not in item.versions:
            if not item.ignorable and not is_default(item, value):
                raise ValueError(f"{schema.name}.{item.name}: not in version {version}")
        elif item.tag is None or not is_default(item, value):
            out[item.json_name] = _value_to_json(item, value, version)
    return out


def _value_to_json(item: Field, value: Any, version: int) -> Json:
    if value is None:
        if not item.null_in(version):
            raise ValueError(f"{item.name} must not be null in version {version}")
        return None
    if item.array:
        return [_item_to_json(item, one, version) for one in value]
    return _item_to_json(item, value, version)


def _item_to_json(item: Field, value: Any, version: int) -> Json:
    if item.struct is not None:
        return _struct_to_json(item.struct, value, version)
    if item.type == "uuid":
        return uuid_text(value)
    if item.type in ("bytes", "records"):
        return base64.b64encode(value).decode("ascii")
    if item.type == "float64":
        return _float_to_json(value)
    return value


def _float_to_json(value: float) -> Json:
    if value != value:  # noqa: PLR0124 - the only number that is not itself
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, value)


class _Parser:
    """JSON to objects; ``path`` says where we are, for the error message."""

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._schema = schema
        self._version = version

    def struct(self, schema: StructSchema, value: Json, path: str) -> Struct:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        out = struct_class(self._schema.name, schema.name)()
        rest = dict(value)
        for item in schema.fields:
            if self._version not in item.versions:
                continue
            here = f"{path}.{item.json_name}"
            if item.json_name in rest:
                setattr(out, item.name, self._value(item, rest.pop(item.json_name), here))
            elif item.tag is None:
                raise ValueError(f"{here}: missing, and mandatory in version {self._version}")
        if rest:
            raise ValueError(f"{path}: version {self._version} has no field {min(rest)!r}")
        return out

    def _value(self, item: Field, value: Json, path: str) -> Any:
        if value is None:
            if not item.null_in(self._version):
                raise ValueError(f"{path}: must not be null in version {self._version}")
            return None
        if not item.array:
            return self._item(item, value, path)
        if not isinstance(value, list):
            raise _wrong(path, "an array", value)
        return [self._item(item, one, f"{path}[{i}]") for i, one in enumerate(value)]

    def _item(self, item: Field, value: Json, path: str) -> Any:
        if item.struct is not None:
            return self.struct(item.struct, value, path)
        if item.type == "string":
            return _expect(value, str, path)
        if item.type == "bool":
            return _expect(value, bool, path)
        if item.type == "uuid":
            return uuid_from_text(_expect(value, str, path))
        if item.type == "float64":
            return _number(value, path)
        if item.type in ("bytes", "records"):
            return _binary(_expect(value, str, path), path)
        return _integer(item.type, value, path)


def _wrong(path: str, wanted: str, value: Json) -> ValueError:
    return ValueError(f"{path}: {wanted} is expected, not {value!r:.60}")


def _expect(value: Json, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(path, kind.__name__, value)
    return value


def _binary(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{path}: not base64: {text[:40]!r}") from None


def _number(value: Json, path: str) -> float:
    if isinstance(value, str) and value in _NOT_NUMBERS:
        return _NOT_NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(path, "a number", value)
    return float(value)


_RANGES = {
    "int8": Versions(-(1 << 7), (1 << 7) - 1),
    "int16": Versions(-(1 << 15), (1 << 15) - 1),
    "uint16": Versions(0, (1 << 16) - 1),
    "int32": Versions(-(1 << 31), (1 << 31) - 1),
    "uint32": Versions(0, (1 << 32) - 1),
    "int64": Versions(-(1 << 63), (1 << 63) - 1),
}


def _integer(kind: str, value: Json, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in _RANGES[kind]:
        raise _wrong(path, kind, value)
    return value
