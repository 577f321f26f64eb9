"""Reads the notation in which the messages of the protocol are written (``schema/*.kafka``).

A file holds one API (a request and a response) or any number of records::

    api Heartbeat  key 12  versions 0-4  flexible 4+  listener broker

    request
      group_id           string     0+  is GroupId
      group_instance_id  string?3+  3+  = null
      topics             [Topic]    4+  ignorable
        name             string     4+  key

A field is a name, a type, the versions that have it, and marks. Fields of a struct are indented
below the field that brings it; a struct that several fields share stands under ``struct Name  0+``.
``docs/internals/protocol.md`` explains every mark. The generator and the JSON form of messages
both read this, so that there is one source for what a message is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FIXED_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
PRIMITIVES: Final = frozenset(FIXED_SIZES) | {"string", "bytes", "records"}
KINDS: Final = frozenset({"metadata", "coordinator-key", "coordinator-value", "data", "header"})
HIGHEST: Final = 0x7FFF

_TYPE: Final = re.compile(
    r"(?P<array>\[)?(?P<name>\w+)(?(array)\])(?P<nullable>\?(?P<versions>\S+)?)?"
)


class SchemaError(ValueError):
    """A line of a schema that says nothing we understand."""


class Versions(NamedTuple):
    """A closed range; ``low`` above ``high`` means none."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    @property
    def empty(self) -> bool:
        return self.low > self.high


NONE: Final = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """``3``, ``3+``, ``3-5`` or ``none``."""
    if text == "none":
        return NONE
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise SchemaError(f"not a range of versions: {text!r}")
    low = int(match[1])
    if match[2]:
        return Versions(low, HIGHEST)
    return Versions(low, int(match[3]) if match[3] else low)


@dataclass(slots=True)
class Field:
    """One field of a struct; ``type`` is a primitive or the name of a struct."""

    name: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions = NONE
    default: str | None = None
    ignorable: bool = False
    tag: int | None = None
    map_key: bool = False
    entity: str | None = None
    inflexible: bool = False
    struct: StructSchema | None = None

    @property
    def json_name(self) -> str:
        head, *rest = self.name.split("_")
        return head + "".join(word.capitalize() for word in rest)

    def null_in(self, version: int) -> bool:
        return version in self.nullable


@dataclass(slots=True)
class StructSchema:
    """Named fields in the order of the wire; ``versions`` are those in which it can occur."""

    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class MessageSchema:
    """A request, response, record or header."""

    kind: str
    key: int
    root: StructSchema
    flexible: Versions
    structs: list[StructSchema] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def versions(self) -> Versions:
        return self.root.versions


@dataclass(slots=True)
class ApiLine:
    """What the first line of an API's file says beyond its two messages."""

    name: str
    key: int
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    forwardable: bool
    cluster_action: bool
    unstable: bool


@dataclass(slots=True)
class Schema:
    """A whole file."""

    api: ApiLine | None = None
    messages: list[MessageSchema] = field(default_factory=list)


class _Line(NamedTuple):
    number: int
    indent: int
    words: list[str]


def read_schema(text: str) -> Schema:
    """The messages that ``text`` describes; SchemaError names the line that is wrong."""
    reader = _Reader(text)
    reader.read()
    return reader.schema


class _Reader:
    """A recursive descent over lines, by indentation."""

    def __init__(self, text: str) -> None:
        self.schema = Schema()
        self._lines: list[_Line] = []
        self._next = 0
        self._at = 0
        for number, raw in enumerate(text.splitlines(), 1):
            code = raw.split("#", 1)[0].rstrip()
            if code:
                indent = len(code) - len(code.lstrip(" "))
                self._lines.append(_Line(number, indent, code.split()))

    def read(self) -> None:
        try:
            while self._next < len(self._lines):
                line = self._look()
                self._next += 1
                self._read_block(line)
        except SchemaError as error:
            raise SchemaError(f"line {self._at}: {error}") from None

    def _look(self) -> _Line:
        line = self._lines[self._next]
        self._at = line.number
        return line

    def _read_block(self, line: _Line) -> None:
        kind = line.words[0]
        if line.indent:
            raise SchemaError("unexpected indentation")
        if kind == "api":
            self.schema.api = _read_api(line.words)
        elif kind in ("request", "response"):
            api = self.schema.api
            if api is None:
                raise SchemaError(f"{kind} without an api")
            root = StructSchema(api.name + kind.capitalize(), api.versions)
            self._read_message(MessageSchema(kind, api.key, root, api.flexible))
        elif kind in KINDS:
            marks = _marks(line.words[2:], needed={"versions", "flexible"})
            root = StructSchema(line.words[1], parse_versions(marks["versions"]))
            flexible = parse_versions(marks["flexible"])
            self._read_message(MessageSchema(kind, _number(marks.get("key", "-1")), root, flexible))
        else:
            raise SchemaError(f"unknown word {kind!r}")

    def _read_message(self, message: MessageSchema) -> None:
        message.root.fields = self._read_fields(0, message)
        _resolve(message)
        self.schema.messages.append(message)

    def _read_fields(self, parent_indent: int, message: MessageSchema) -> list[Field]:
        fields: list[Field] = []
        indent = None
        while self._next < len(self._lines):
            before, line = self._at, self._look()
            if line.indent <= parent_indent:
                self._at = before
                break
            if indent not in (None, line.indent):
                raise SchemaError("uneven indentation")
            indent = line.indent
            self._next += 1
            if line.words[0] == "struct":
                self._read_struct(line, message)
                continue
            item = _read_field(line.words)
            fields.append(item)
            nested = self._read_fields(line.indent, message)
            if nested:
                if item.type in PRIMITIVES:
                    raise SchemaError(f"{item.name} is no struct")
                item.struct = StructSchema(item.type, item.versions, nested)
                message.structs.append(item.struct)
        return fields

    def _read_struct(self, line: _Line, message: MessageSchema) -> None:
        if len(line.words) != 3:
            raise SchemaError("a struct needs a name and versions")
        shared = StructSchema(line.words[1], parse_versions(line.words[2]))
        message.structs.append(shared)
        shared.fields = self._read_fields(line.indent, message)


def _marks(words: list[str], needed: set[str]) -> dict[str, str]:
    if len(words) % 2:
        raise SchemaError(f"a mark without its value: {words[-1]!r}")
    marks = dict(zip(words[::2], words[1::2], strict=True))
    if marks.keys() - {"key"} != needed - {"key"}:
        raise SchemaError(f"these marks are needed, and no others: {', '.join(sorted(needed))}")
    return marks


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise SchemaError(f"not a number: {text!r}") from None


def _read_api(words: list[str]) -> ApiLine:
    flags = {"forwardable", "cluster-action", "unstable"}
    needed = {"key", "versions", "flexible", "listener"}
    marks = _marks([word for word in words[2:] if word not in flags], needed)
    return ApiLine(
        name=words[1],
        key=_number(marks.get("key", "")),
        versions=parse_versions(marks["versions"]),
        flexible=parse_versions(marks["flexible"]),
        listeners=tuple(marks["listener"].split(",")),
        forwardable="forwardable" in words,
        cluster_action="cluster-action" in words,
        unstable="unstable" in words,
    )


def _read_field(words: list[str]) -> Field:
    if len(words) < 3:
        raise SchemaError("a field needs a name, a type and versions")
    match = _TYPE.fullmatch(words[1])
    if match is None:
        raise SchemaError(f"not a type: {words[1]!r}")
    item = Field(words[0], match["name"], match["array"] is not None, parse_versions(words[2]))
    if match["nullable"]:
        item.nullable = parse_versions(match["versions"]) if match["versions"] else item.versions
    marks = iter(words[3:])
    for mark in marks:
        if mark == "ignorable":
            item.ignorable = True
        elif mark == "key":
            item.map_key = True
        elif mark == "inflexible":
            item.inflexible = True
        elif mark == "=":
            item.default = next(marks, "")
        elif mark == "tag":
            item.tag = _number(next(marks, ""))
        elif mark == "is":
            item.entity = next(marks, "")
        else:
            raise SchemaError(f"unknown mark {mark!r}")
    return item


def _resolve(message: MessageSchema) -> None:
    """Join every field to its struct, and cut all versions to those that can occur."""
    by_name: dict[str, StructSchema] = {}
    for struct in message.structs:
        if by_name.setdefault(struct.name, struct) is not struct:
            raise SchemaError(f"struct {struct.name} is described twice")
    used: dict[str, Versions] = {}

    def visit(struct: StructSchema, reach: Versions) -> None:
        for item in struct.fields:
            if item.type in PRIMITIVES:
                continue
            if item.type not in by_name:
                raise SchemaError(f"{item.name}: unknown type {item.type}")
            item.struct = by_name[item.type]
            inner = item.versions.within(reach).within(item.struct.versions)
            if inner.empty:
                continue
            seen = used.get(item.type, inner)
            union = Versions(min(seen.low, inner.low), max(seen.high, inner.high))
            used[item.type] = union
            visit(item.struct, inner)

    visit(message.root, message.versions)
    message.structs = [struct for struct in message.structs if struct.name in used]
    for struct in [message.root, *message.structs]:
        struct.versions = used.get(struct.name, struct.versions)
        for item in struct.fields:
            item.versions = item.versions.within(struct.versions)
            item.nullable = item.nullable.within(item.versions)
    low, high = message.flexible
    message.flexible = Versions(low, min(high, message.versions.high))
