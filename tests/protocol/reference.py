"""A second encoder, slow and simple, that walks the schema: it knows nothing of generated code.

It returns the message in pieces and says which of them are lengths, so that tests can put a lie in
the place of each.
"""

import struct
from typing import Any, NamedTuple

from ottla.protocol.describe import is_default
from ottla.protocol.message import Struct
from ottla.protocol.schema_reader import Field, MessageSchema, StructSchema

CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


class Piece(NamedTuple):
    data: bytes
    length: str
    """Empty for what is no length; else ``varint`` (of one more), ``tag``, or a struct format."""
    nullable: bool = False
    """Whether this length may say null."""


def plain(data: bytes) -> Piece:
    return Piece(data, "")


def varint(value: int) -> bytes:
    out = []
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def join(pieces: list[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def encode(schema: MessageSchema, message: Struct, version: int) -> list[Piece]:
    return _Encoder(schema, version).struct(schema.root, message)


class _Encoder:
    def __init__(self, schema: MessageSchema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible

    def struct(self, schema: StructSchema, value: Struct) -> list[Piece]:
        pieces: list[Piece] = []
        tags: list[tuple[int, list[Piece]]] = []
        for item in schema.fields:
            if self.version not in item.versions:
                continue
            one = getattr(value, item.name)
            if item.tag is None:
                pieces += self.field(item, one)
            elif not is_default(item, one):
                tags.append((item.tag, self.field(item, one)))
        if self.flexible:
            tags += [(tag, [plain(data)]) for tag, data in value.unknown_tagged_fields or []]
            pieces += self.tags(sorted(tags, key=lambda tag: tag[0]))
        return pieces

    def tags(self, tags: list[tuple[int, list[Piece]]]) -> list[Piece]:
        pieces = [Piece(varint(len(tags)), "tag", nullable=True)]
        for tag, inner in tags:
            pieces.append(plain(varint(tag)))
            pieces.append(Piece(varint(len(join(inner))), "tag", nullable=True))
            pieces += inner
        return pieces

    def field(self, item: Field, value: Any) -> list[Piece]:
        nullable = item.null_in(self.version)
        if item.array:
            length = self.length(item, None if value is None else len(value), ">i", nullable)
            return [length] + [piece for one in value or [] for piece in self.value(item, one)]
        if item.struct is not None and nullable:
            if value is None:
                return [plain(b"\xff")]
            return [plain(b"\x01"), *self.value(item, value)]
        return self.value(item, value, nullable=nullable)

    def value(self, item: Field, value: Any, *, nullable: bool = False) -> list[Piece]:
        if item.struct is not None:
            return self.struct(item.struct, value)
        if item.type in CODES:
            return [plain(struct.pack(">" + CODES[item.type], value))]
        data = value.encode() if isinstance(value, str) else value
        code = ">h" if item.type == "string" else ">i"
        length = self.length(item, None if data is None else len(data), code, nullable)
        return [length, plain(data or b"")]

    def length(self, item: Field, count: int | None, code: str, nullable: bool) -> Piece:
        if self.flexible and not item.inflexible:
            return Piece(varint(0 if count is None else count + 1), "varint", nullable)
        return Piece(struct.pack(code, -1 if count is None else count), code, nullable)
