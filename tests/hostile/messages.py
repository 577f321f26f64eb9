"""Requests of every API and version with every field at a known place, to be broken on purpose.

An encoder of its own, from the schema: it chooses values, writes them as the version wants, and
remembers where each length, count and number stands. Damage is then done to a named place.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from ottla.common.chance import Chance
from ottla.protocol.api import APIS, Api, ApiKey
from ottla.protocol.schema_reader import Field, StructSchema
from ottla.protocol.schemas import schema_of
from ottla.records.builder import build_batch
from ottla.records.record import Record

NAMES: Final = ("target", "target", "missing", "", "..", "a/b", "ž" * 10, "x" * 300, "1", "30")
NUMBERS: Final = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "float64": "d",
}  # fmt: skip
# Numbers that ask for work or waiting are kept to what a broker can do at once.
CAREFUL: Final = {
    "num_partitions": (-2, -1, 0, 1, 2, 100_000, 2**31 - 1),
    "count": (-2, -1, 0, 1, 2, 100_000, 2**31 - 1),
    "max_wait_ms": (-1, 0, 1, 20),
    "timeout_ms": (-1, 0, 1, 20),
    "session_timeout_ms": (-1, 0, 1, 6_000),
    "rebalance_timeout_ms": (-1, 0, 1, 100),
}


@dataclass(slots=True)
class Encoded:
    """A body, and what stands where: ``(position, size, kind)``."""

    body: bytearray = field(default_factory=bytearray)
    marks: list[tuple[int, int, str]] = field(default_factory=list)

    def put(self, data: bytes, kind: str) -> None:
        self.marks.append((len(self.body), len(data), kind))
        self.body += data


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Requests:
    """Makes requests; the same chance makes the same requests."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        # A sound request to forget the broker is carried out: that is no damage.
        self._apis = [api for key, api in APIS.items() if key != ApiKey.UNREGISTER_BROKER]
        self._batch = build_batch([Record(key=b"k", value=b"v" * 20, timestamp=1_700_000_000_000)])

    def next(self) -> tuple[Api, int, Encoded]:
        """An API, one of its versions, and a body that is well-formed."""
        api = self._chance.choose(self._apis)
        version = api.lowest_version + self._below(api.highest_version - api.lowest_version + 1)
        return api, version, self.encode(api, version)

    def encode(self, api: Api, version: int) -> Encoded:
        schema = schema_of(f"{api.name}Request")
        out = Encoded()
        self._struct(out, schema.root, version, flexible=version in schema.flexible)
        return out

    def _below(self, bound: int) -> int:
        return self._chance.below(bound)

    def _struct(self, out: Encoded, schema: StructSchema, version: int, *, flexible: bool) -> None:
        tagged: list[Field] = []
        for item in schema.fields:
            if version not in item.versions:
                continue
            if item.tag is not None:
                tagged.append(item)
            else:
                self._field(out, item, version, flexible=flexible and not item.inflexible)
        if flexible:
            self._tags(out, tagged, version)

    def _tags(self, out: Encoded, tagged: list[Field], version: int) -> None:
        chosen = [item for item in tagged if self._below(2)]
        unknown = self._below(8) == 0
        out.put(uvarint(len(chosen) + unknown), "tag count")
        for item in sorted(chosen, key=lambda one: one.tag or 0):
            inner = Encoded()
            self._field(inner, item, version, flexible=True)
            out.put(uvarint(item.tag or 0), "tag")
            out.put(uvarint(len(inner.body)), "varlength")
            start = len(out.body)
            out.body += inner.body
            out.marks += [(start + at, size, kind) for at, size, kind in inner.marks]
        if unknown:
            out.put(uvarint(9000), "tag")
            out.put(uvarint(3), "varlength")
            out.body += b"abc"

    def _field(self, out: Encoded, item: Field, version: int, *, flexible: bool) -> None:
        if item.array:
            self._array(out, item, version, flexible=flexible)
        elif item.struct is not None:
            if item.null_in(version):
                present = self._below(4) > 0
                out.put(b"\x01" if present else b"\xff", "presence")
                if not present:
                    return
            self._struct(out, item.struct, version, flexible=flexible)
        else:
            self._primitive(out, item, version, flexible=flexible)

    def _array(self, out: Encoded, item: Field, version: int, *, flexible: bool) -> None:
        if item.null_in(version) and self._below(6) == 0:
            out.put(*_length(-1, flexible=flexible, kind="count"))
            return
        count = self._below(3)
        out.put(*_length(count, flexible=flexible, kind="count"))
        for _ in range(count):
            if item.struct is not None:
                self._struct(out, item.struct, version, flexible=flexible)
            else:
                self._primitive(out, item, version, flexible=flexible)

    def _primitive(self, out: Encoded, item: Field, version: int, *, flexible: bool) -> None:
        if item.type in NUMBERS:
            out.put(self._number(item), item.type)
        elif item.type == "uuid":
            out.put(self._chance.bytes(16) if self._below(2) else bytes(16), "uuid")
        elif item.null_in(version) and not item.array and self._below(6) == 0:
            out.put(*_length(-1, flexible=flexible, kind=item.type))
        else:
            data = self._data(item)
            out.put(*_length(len(data), flexible=flexible, kind=item.type))
            out.body += data

    def _data(self, item: Field) -> bytes:
        if item.type == "records":
            return self._batch
        if item.type == "bytes":
            return self._chance.bytes(self._below(12))
        return self._chance.choose(NAMES).encode()

    def _number(self, item: Field) -> bytes:
        form = NUMBERS[item.type]
        if item.name in CAREFUL:
            return struct.pack(f">{form}", self._chance.choose(CAREFUL[item.name]))
        if form == "?":
            return bytes([self._below(2)])
        if form == "d":
            return struct.pack(">d", self._chance.choose((0.0, -1.0, 1e300, float("nan"))))
        return _fitting(form, self._chance.choose((0, 0, 0, 1, -1, 2, 5, 100, 2**31 - 1, -(2**31))))


def _fitting(form: str, value: int) -> bytes:
    """``value`` in as many bytes as the form has, cut where it does not fit."""
    size = struct.calcsize(form)
    return (value % (1 << (8 * size))).to_bytes(size, "big")


def _length(value: int, *, flexible: bool, kind: str) -> tuple[bytes, str]:
    """The length of a string, bytes or array as the version writes it, and its mark."""
    if flexible:
        return uvarint(value + 1), "varlength"
    if kind == "string":
        return struct.pack(">h", value), "length16"
    return struct.pack(">i", value), "length32"


LIES: Final = {
    "length16": [struct.pack(">h", n) for n in (-2, -1, -32768, 32767, 0, 1000)],
    "length32": [
        struct.pack(">i", n) for n in (-2, -1, -(2**31), 2**31 - 1, 0, 100_000_000, 65_536)
    ],
    "varlength": [
        bytes.fromhex(text)
        for text in (
            "00", "01", "7f", "ffff03", "ffffffff07", "ffffffff0f", "feffffff0f",
            "ffffffffff0f", "ffffffffffffffffff01", "8080808080808080808000", "80",
        )
    ],
    "tag count": [bytes.fromhex(text) for text in ("01", "05", "ffffffff0f", "ffffffffff7f")],
    "tag": [bytes.fromhex(text) for text in ("00", "01", "ffffffff0f", "ffffffffffff01")],
    "presence": [b"\x00", b"\x02", b"\x80", b"\xfe"],
    "int8": [b"\x7f", b"\x80", b"\xff"],
    "int16": [b"\x7f\xff", b"\x80\x00", b"\xff\xff", b"\x00\x00"],
    "int32": [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x07"],
    "int64": [b"\x7f" + b"\xff" * 7, b"\x80" + b"\x00" * 7, b"\xff" * 8],
    "bool": [b"\x02", b"\xff"],
    "uuid": [bytes(15) + b"\x01", b"\xff" * 16],
}  # fmt: skip


def damaged(encoded: Encoded, chance: Chance) -> bytes:
    """The body with one thing wrong: a lie about a length, a cut, a flip, or too much."""
    body = bytearray(encoded.body)
    way = chance.below(10)
    if way < 6 and encoded.marks:
        position, size, kind = encoded.marks[chance.below(len(encoded.marks))]
        lies = LIES.get(kind)
        if lies:
            body[position : position + size] = lies[chance.below(len(lies))]
            return bytes(body)
    if way < 7 and body:
        return bytes(body[: chance.below(len(body))])
    if way < 8 and body:
        body[chance.below(len(body))] ^= 1 << chance.below(8)
        return bytes(body)
    if way < 9:
        return bytes(body) + chance.bytes(1 + chance.below(40))
    return bytes(body)
