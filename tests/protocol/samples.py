"""Messages made from the schema: random ones, and one that has something everywhere."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.message import Message, Struct
from ottla.protocol.schema_reader import Field, MessageSchema, StructSchema
from ottla.protocol.schemas import schema_of, struct_class

UNKNOWN_TAG = 9_000
INTEGERS = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    "bytes": st.binary(max_size=12),
    "records": st.binary(max_size=12),
}
UNKNOWN_TAGS = st.lists(
    st.tuples(st.integers(UNKNOWN_TAG, (1 << 32) - 1), st.binary(max_size=3)),
    max_size=2,
    unique_by=lambda tag: tag[0],
).map(lambda tags: sorted(tags) or None)


@cache
def messages(name: str, version: int) -> st.SearchStrategy[Message]:
    """All messages of that name that the version can say."""
    schema = schema_of(name)
    return _structs(schema, schema.root, version).map(_as_message)


def _as_message(value: Struct) -> Message:
    assert isinstance(value, Message)
    return value


def _structs(
    schema: MessageSchema, struct: StructSchema, version: int
) -> st.SearchStrategy[Struct]:
    fields = {
        item.name: _values(schema, item, version)
        for item in struct.fields
        if version in item.versions
    }
    if version in schema.flexible:
        fields["unknown_tagged_fields"] = UNKNOWN_TAGS
    return st.builds(struct_class(schema.name, struct.name), **fields)


def _values(schema: MessageSchema, item: Field, version: int) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if item.struct is not None:
        values = _structs(schema, item.struct, version)
    else:
        values = VALUES[item.type]
    if item.array:
        values = st.lists(values, max_size=2)
    return st.none() | values if item.null_in(version) else values


def full_message(name: str, version: int, *, unknown_tags: bool = True) -> Message:
    """A message in which nothing is null, empty or left out, and each struct has an unknown tag."""
    schema = schema_of(name)
    return _as_message(_Full(schema, version, unknown_tags).struct(schema.root))


FULL = {"bool": True, "float64": 1.5, "uuid": bytes(range(16)), "string": "text"}


class _Full:
    def __init__(self, schema: MessageSchema, version: int, unknown_tags: bool) -> None:
        self._schema = schema
        self._version = version
        self._tags = [(UNKNOWN_TAG, b"?")] if unknown_tags and version in schema.flexible else None

    def struct(self, struct: StructSchema) -> Struct:
        cls: Any = struct_class(self._schema.name, struct.name)
        value: Struct = cls(unknown_tagged_fields=self._tags)
        for item in struct.fields:
            if self._version in item.versions:
                one = self._value(item)
                setattr(value, item.name, [one] if item.array else one)
        return value

    def _value(self, item: Field) -> Any:
        if item.struct is not None:
            return self.struct(item.struct)
        if item.type in ("bytes", "records"):
            return b"bytes"
        return FULL.get(item.type, 7)
