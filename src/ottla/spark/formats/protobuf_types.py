"""Protobuf's descriptors: from a descriptor set or a registry, and as types of Arrow.

The package ``protobuf`` has no parser of ``.proto`` text; descriptors come from ``protoc
--include_imports --descriptor_set_out``, or from a registry that gives them in serialized form.
"""

import base64
import binascii
from typing import Any, Final

import pyarrow as pa
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from ottla.spark.formats.arrow_types import (
    DEPTH_MAX,
    TIMESTAMP,
    TYPES_MAX,
    list_of,
    map_of,
    struct_of,
)
from ottla.spark.formats.spec import FormatError
from ottla.spark.registry import RegisteredSchema

TIMESTAMP_NAME: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_WELL_KNOWN: Final = (timestamp_pb2, duration_pb2, wrappers_pb2, empty_pb2, descriptor_pb2)
_UNSIGNED_LONG: Final = pa.decimal128(20, 0)
_SCALARS: Final[dict[str, pa.DataType]] = {
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "INT64": pa.int64(),
    "SINT64": pa.int64(),
    "SFIXED64": pa.int64(),
    "UINT64": _UNSIGNED_LONG,
    "FIXED64": _UNSIGNED_LONG,
    "INT32": pa.int32(),
    "SINT32": pa.int32(),
    "SFIXED32": pa.int32(),
    "UINT32": pa.int64(),
    "FIXED32": pa.int64(),
    "BOOL": pa.bool_(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "ENUM": pa.string(),
}
_TYPE_NAMES: Final = {
    number: name.removeprefix("TYPE_")
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


def scalar_name(field: Any) -> str:
    """INT32, STRING, ... MESSAGE, as Protobuf names the type of a field."""
    return str(_TYPE_NAMES[field.type])


def is_map(field: Any) -> bool:
    return bool(scalar_name(field) == "MESSAGE" and field.message_type.GetOptions().map_entry)


def files_of(descriptors: bytes) -> dict[str, Any]:
    """The files of a FileDescriptorSet, by name, in whichever order they stand."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise FormatError("no descriptor set: make one by protoc --descriptor_set_out") from error
    return {each.name: each for each in files}


def pool_of(descriptors: bytes) -> Any:
    """All messages of a FileDescriptorSet, and the well-known ones."""
    known = files_of(descriptors)
    for module in _WELL_KNOWN:
        well_known = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(well_known)
        known.setdefault(well_known.name, well_known)
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for name in sorted(known):
        _add(pool, name, known, added, 0)
    return pool


def _add(pool: Any, name: str, known: dict[str, Any], added: set[str], depth: int) -> None:
    if name in added:
        return
    if name not in known or depth > len(known):
        raise FormatError(f"descriptor set: {name} is missing; use protoc --include_imports")
    for each in known[name].dependency:
        _add(pool, each, known, added, depth + 1)
    added.add(name)
    try:
        pool.Add(known[name])
    except TypeError as error:
        raise FormatError(f"descriptor set: {name}: {error}") from error


def message_of(pool: Any, name: str) -> Any:
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise FormatError(f"messageName: the descriptors hold no message {name}") from error


def descriptors_of(schema: RegisteredSchema) -> tuple[bytes, str]:
    """A descriptor set of a registered schema, and the name of its own file in it."""
    files = descriptor_pb2.FileDescriptorSet()
    own = ""
    for each in schema.in_order():
        own = each.name or f"registered/{each.id}.proto"
        if each.kind != "PROTOBUF":
            raise FormatError(f"schema {each.id} is one of {each.kind}, not of PROTOBUF")
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(
                base64.b64decode(each.text, validate=True)
            )
        except (binascii.Error, ValueError, DecodeError) as error:
            raise FormatError(
                f"schema {each.id}: the registry gives its text only, not its descriptor "
                "(format=serialized); give a descriptor set as valueSchemaFile"
            ) from error
        file.name = own
        files.file.append(file)
    return files.SerializeToString(), own


def message_at(pool: Any, file_name: str, indexes: tuple[int, ...]) -> str:
    """The full name of a message by its place in the file, as frames tell it."""
    file = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(file_name).CopyToProto(file)
    name, messages = file.package, file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError(f"message indexes {list(indexes)} lead nowhere in the schema")
        name = f"{name}.{messages[index].name}".lstrip(".")
        messages = messages[index].nested_type
    return str(name)


def indexes_of(message: Any) -> tuple[int, ...]:
    """The place of a message in its file."""
    places: list[int] = []
    while message is not None:
        parent = message.containing_type
        siblings = (
            message.file.message_types_by_name.values() if parent is None else parent.nested_types
        )
        places.append([each.full_name for each in siblings].index(message.full_name))
        message = parent
    return tuple(reversed(places))


def type_of(message: Any, within: tuple[str, ...] = ()) -> pa.DataType:
    """A struct of the message's fields; of the well-known types, what they stand for."""
    name = message.full_name
    if name == TIMESTAMP_NAME:
        return TIMESTAMP
    if name in WRAPPERS:
        return _SCALARS[scalar_name(message.fields_by_name["value"])]
    if name in within or len(within) > DEPTH_MAX:
        raise FormatError(f"Protobuf: {name} refers to itself, which no column can")
    if not within and _written_out(message, {}) > TYPES_MAX:
        raise FormatError(f"Protobuf: {name} has more than {TYPES_MAX} fields, one in another")
    inner = (*within, name)
    return struct_of((each.name, _field(each, inner)) for each in message.fields)


def _written_out(message: Any, known: dict[str, int]) -> int:
    """How many fields there are when each stands where it is named; each message counts once."""
    name = message.full_name
    if name not in known:
        known[name] = 0  # within itself it is refused anyway
        known[name] = sum(
            1 + (0 if each.message_type is None else _written_out(each.message_type, known))
            for each in message.fields
        )
    return known[name]


def _field(field: Any, within: tuple[str, ...]) -> pa.DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return map_of(_single(entry["key"], within), _single(entry["value"], within))
    kind = _single(field, within)
    return list_of(kind) if field.is_repeated else kind


def _single(field: Any, within: tuple[str, ...]) -> pa.DataType:
    name = scalar_name(field)
    if name == "GROUP":
        raise FormatError(f"Protobuf: {field.full_name} is a group, which is not read")
    return type_of(field.message_type, within) if name == "MESSAGE" else _SCALARS[name]
