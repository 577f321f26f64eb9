"""Protobuf values to columns and back, by messages made from descriptors.

Messages are parsed one by one, in C, and laid into columns field by field: one list per field of
the whole table, not one object per row. Fields with presence are null where they are not set, the
others have Protobuf's default; an enum is its name, or its number where the schema has none for it.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from google.protobuf import message_factory

from ottla.spark.formats.framing import BadFrame, frame, read_frame, read_indexes, write_indexes
from ottla.spark.formats.protobuf_types import (
    TIMESTAMP_NAME,
    WRAPPERS,
    descriptors_of,
    is_map,
    message_at,
    message_of,
    pool_of,
    scalar_name,
    type_of,
)
from ottla.spark.formats.protobuf_types import indexes_of as place_of
from ottla.spark.formats.spec import DecodedColumn, EncodeError, Fault, FormatError, FormatSpec
from ottla.spark.registry import BadSchema, RegistryError, registry

Write = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


class WrongMessage(ValueError):
    """A value of another message, or of a schema that the registry does not know."""


class ProtobufCodec:
    """Messages of one type."""

    def __init__(self, spec: FormatSpec) -> None:
        if spec.descriptors is None or spec.message_name is None:
            raise FormatError(
                "Protobuf needs a descriptor set (valueSchemaFile) and messageName, "
                "or schemaRegistry"
            )
        self._message = message_of(pool_of(spec.descriptors), spec.message_name)
        self._class = message_factory.GetMessageClass(self._message)
        self.type = type_of(self._message)
        self._registry = None if spec.registry is None else registry(spec.registry)
        self._prefix = b""
        if spec.schema_id is not None:
            self._prefix = frame(spec.schema_id) + write_indexes(place_of(self._message))
        self._required = _any_required(self._message)
        self._files: dict[int, tuple[Any, str]] = {}

    def decode(self, values: pa.Array) -> DecodedColumn:
        messages: list[Any] = []
        faults: list[Fault] = []
        verdicts: dict[tuple[int, tuple[int, ...]], str] = {}
        for row, value in enumerate(values.to_pylist()):
            made = None
            if value is not None:
                try:
                    at = 0 if self._registry is None else self._unframe(value, verdicts)
                    made = self._class.FromString(value[at:] if at else value)
                    if self._required and not made.IsInitialized():
                        missing = made.FindInitializationErrors()
                        made = None
                        raise ValueError(f"required and missing: {', '.join(missing)}")
                except (BadFrame, WrongMessage) as error:
                    faults.append(Fault(row, type(error).__name__, str(error)))
                except (RegistryError, FormatError, MemoryError):
                    raise
                except Exception as error:  # noqa: BLE001 (whatever the parser finds)
                    faults.append(Fault(row, "BadProtobuf", str(error)[:500] or "cut or garbled"))
            messages.append(made)
        array = self._columns(messages, faults)
        return DecodedColumn(array, sorted(faults))

    def _unframe(self, value: bytes, verdicts: dict[tuple[int, tuple[int, ...]], str]) -> int:
        schema_id, at = read_frame(value)
        indexes, at = read_indexes(value, at)
        key = (schema_id, indexes)
        if key not in verdicts:
            verdicts[key] = self._verdict(schema_id, indexes)
        if verdicts[key]:
            raise WrongMessage(verdicts[key])
        return at

    def _verdict(self, schema_id: int, indexes: tuple[int, ...]) -> str:
        """Why values with this frame are none of ours; empty: they are."""
        assert self._registry is not None, "only framed values name a schema"
        if schema_id not in self._files:
            try:
                found = self._registry.by_id(schema_id)
            except BadSchema as error:
                return f"schema {schema_id}: {error}"
            if found.kind != "PROTOBUF":
                return f"schema {schema_id} is one of {found.kind}, not of PROTOBUF"
            descriptors, file_name = descriptors_of(found)
            self._files[schema_id] = pool_of(descriptors), file_name
        try:
            name = message_at(*self._files[schema_id], indexes)
        except ValueError as error:
            return f"schema {schema_id}: {error}"
        wanted = self._message.full_name
        return "" if name == wanted else f"holds a message {name}, not {wanted}"

    def _columns(self, messages: list[Any], faults: list[Fault]) -> pa.Array:
        """All at once; where a field of some message cannot be had, halves, down to that one."""

        def make(low: int, high: int) -> pa.Array:
            try:
                return _structs(self._message, messages[low:high])
            except (pa.ArrowException, ValueError, OverflowError) as error:
                if high - low == 1:
                    faults.append(Fault(low, "BadProtobuf", str(error)[:500]))
                    return pa.nulls(1, self.type)
            half = (low + high) // 2
            return pa.concat_arrays([make(low, half), make(half, high)])

        return make(0, len(messages))

    def encode(self, column: pa.Array) -> pa.Array:
        write, out = _message_writer(self._message), []
        for number, row in enumerate(column.to_pylist(maps_as_pydicts="strict")):
            try:
                out.append(None if row is None else self._write(write(row)))
            except Exception as error:
                raise EncodeError(f"row {number}: {str(error)[:500]}") from error
        return pa.array(out, pa.binary())

    def _write(self, fields: Any) -> bytes:
        made = self._class(**fields)
        return self._prefix + bytes(made.SerializeToString(deterministic=True))


# Messages to columns


def _structs(message: Any, values: list[Any]) -> pa.Array:
    empty = message_factory.GetMessageClass(message)()
    nulls = [each is None for each in values]
    filled = [empty if each is None else each for each in values]
    kind = type_of(message)
    arrays = [
        _field(each, filled, kind.field(index).type) for index, each in enumerate(message.fields)
    ]
    mask = pa.array(nulls, pa.bool_()) if any(nulls) else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _field(field: Any, messages: list[Any], kind: pa.DataType) -> pa.Array:
    name = field.name
    if is_map(field):
        containers = list(map(attrgetter(name), messages))
        entry = field.message_type.fields_by_name
        keys = [key for each in containers for key in each]
        values = [value for each in containers for value in each.values()]
        return pa.MapArray.from_arrays(
            _offsets(containers),
            _values(entry["key"], keys, kind.key_type),
            _values(entry["value"], values, kind.item_type),
            type=kind,
        )
    if field.is_repeated:
        containers = list(map(attrgetter(name), messages))
        flat = [value for each in containers for value in each]
        made = _values(field, flat, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(containers), made, type=kind)
    if field.has_presence:
        found = [getattr(each, name) if each.HasField(name) else None for each in messages]
        return _values(field, found, kind)
    return _values(field, list(map(attrgetter(name), messages)), kind)


def _offsets(containers: list[Any]) -> pa.Array:
    return pa.array(accumulate(map(len, containers), initial=0), pa.int32())


def _values(field: Any, values: list[Any], kind: pa.DataType) -> pa.Array:
    name = scalar_name(field)
    if name == "ENUM":
        names = field.enum_type.values_by_number
        known = {number: value.name for number, value in names.items()}
        return pa.array([_enum(known, each) for each in values], kind)
    if name != "MESSAGE":
        return pa.array(values, kind)
    message = field.message_type
    if message.full_name == TIMESTAMP_NAME:
        return pa.array([_microseconds(each) for each in values], pa.int64()).view(kind)
    if message.full_name in WRAPPERS:
        return pa.array([None if each is None else each.value for each in values], kind)
    return _structs(message, values)


def _enum(known: dict[int, str], number: int | None) -> str | None:
    return None if number is None else known.get(number) or str(number)


def _microseconds(stamp: Any) -> int | None:
    return None if stamp is None else int(stamp.seconds * 1_000_000 + stamp.nanos // 1_000)


def _any_required(message: Any, seen: frozenset[str] = frozenset()) -> bool:
    if message.full_name in seen:
        return False
    inner = seen | {message.full_name}
    return any(
        each.is_required
        or (each.message_type is not None and _any_required(each.message_type, inner))
        for each in message.fields
    )


# Columns to messages


def _message_writer(message: Any) -> Write:
    writers = {each.name: _field_writer(each) for each in message.fields}

    def write(row: Any) -> Any:
        return {
            name: value if (writer := writers[name]) is None else writer(value)
            for name, value in row.items()
            if value is not None
        }

    return write


def _field_writer(field: Any) -> Write | None:
    if is_map(field):
        value = field.message_type.fields_by_name["value"]
        of_value = _value_writer(value)
        if value.message_type is not None and value.message_type.full_name == TIMESTAMP_NAME:
            of_value = _timestamp
        if of_value is None:
            return None
        return lambda values: {key: of_value(each) for key, each in values.items()}
    one = _value_writer(field)
    if one is None or not field.is_repeated:
        return one
    return lambda values: [one(each) for each in values]


def _timestamp(value: datetime) -> dict[str, int]:
    """The fields of a Timestamp: within a map no message is made of a datetime by itself."""
    past = value - _EPOCH
    return {"seconds": past // _SECOND, "nanos": past % _SECOND // _MICROSECOND * 1_000}


def _value_writer(field: Any) -> Write | None:
    name = scalar_name(field)
    if name in {"UINT64", "FIXED64"}:
        return int
    if name == "ENUM":
        known = field.enum_type.values_by_name
        return lambda value: value if value in known else int(value)
    if name != "MESSAGE" or field.message_type.full_name == TIMESTAMP_NAME:
        return None
    if field.message_type.full_name in WRAPPERS:
        of_value = _value_writer(field.message_type.fields_by_name["value"]) or (
            lambda value: value
        )
        return lambda value: {"value": of_value(value)}
    return _message_writer(field.message_type)
