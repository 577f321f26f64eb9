"""Types of columns: from Spark's DDL and Spark's JSON to Arrow, in the form that Spark expects.

Spark compares the schema of what a Python source returns with its own, names of elements included;
so types are made here only, by :func:`list_of`, :func:`map_of` and :func:`struct_of`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from ottla.spark.formats.spec import FormatError

DEPTH_MAX: Final = 64
TYPES_MAX: Final = 10_000
"""Of one schema, with all that it refers to written out: each may name another twice."""
TIMESTAMP: Final = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
DECIMAL_DIGITS_MAX: Final = 38

_NAMES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.|'')*)'|(\w+)|([<>(),:]))")


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def map_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.map_(key, pa.field("value", value))


def struct_of(fields: Iterable[tuple[str, pa.DataType]]) -> pa.DataType:
    made = list(fields)
    names = [name for name, _ in made]
    if not made:
        raise FormatError("a struct without fields")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FormatError(f"a struct has the field {twice[0]} twice")
    return pa.struct([pa.field(name, kind) for name, kind in made])


def decimal_of(precision: int, scale: int) -> pa.DataType:
    if not 0 < precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise FormatError(f"decimal({precision}, {scale}) is none that Spark can hold")
    return pa.decimal128(precision, scale)


def parse_columns(text: str) -> pa.DataType:
    """A struct, from DDL (``id bigint, name string``) or Spark's JSON of a StructType."""
    stripped = text.strip()
    kind = arrow_type(_load(stripped)) if stripped.startswith("{") else _Ddl(stripped).columns()
    if not pa.types.is_struct(kind):
        raise FormatError(f"{text[:80]!r} describes no columns")
    return kind


def ddl_of(kind: pa.DataType) -> str:
    """The columns of a struct as DDL, which :func:`parse_columns` reads."""
    return ", ".join(f"{_quoted(each.name)} {_ddl(each.type)}" for each in kind)


def _ddl(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{ddl_of(kind)}>"
    if pa.types.is_list(kind):
        return f"array<{_ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_ddl(kind.key_type)}, {_ddl(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    for name, known in _NAMES.items():
        if kind == known:
            return name
    raise FormatError(f"{kind} is no type that a value can have")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the schema is no JSON: {error}") from error


def arrow_type(kind: Any, depth: int = 0) -> pa.DataType:
    """Of a type as Spark's JSON has it: a name, or an object."""
    if depth > DEPTH_MAX:
        raise FormatError("the schema is nested too deeply")
    if isinstance(kind, str):
        return _Ddl(kind).whole_type()
    try:
        name = kind["type"]
        if name == "struct":
            return struct_of(
                (each["name"], arrow_type(each["type"], depth + 1)) for each in kind["fields"]
            )
        if name == "array":
            return list_of(arrow_type(kind["elementType"], depth + 1))
        if name == "map":
            key = arrow_type(kind["keyType"], depth + 1)
            return map_of(key, arrow_type(kind["valueType"], depth + 1))
    except (KeyError, TypeError) as error:
        raise FormatError(f"{str(kind)[:80]} is no type in Spark's JSON") from error
    raise FormatError(f"Spark's JSON knows no type {name!r}")


class _Ddl:
    """A reader of Spark's DDL, by descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                raise FormatError(f"DDL: {text[place : place + 20]!r} is not understood")
            kind = ("quoted", "comment", "word", "sign")[(match.lastindex or 0) - 1]
            self._tokens.append((kind, match[match.lastindex or 0].replace("``", "`")))
            place = match.end()

    def columns(self) -> pa.DataType:
        kind = self._fields("", 0)
        self._expect_end()
        return kind

    def whole_type(self) -> pa.DataType:
        kind = self._type(0)
        self._expect_end()
        return kind

    def _fields(self, end: str, depth: int) -> pa.DataType:
        fields = []
        while True:
            name = self._next("quoted", "word")
            self._skip(":")
            fields.append((name, self._type(depth)))
            self._attributes()
            if not self._skip(","):
                break
        if end:
            self._expect(end)
        return struct_of(fields)

    def _attributes(self) -> None:
        """NOT NULL and COMMENT say nothing of the type: what comes from outside may be missing."""
        if self._word("not") and not self._word("null"):
            raise FormatError(f"DDL: NOT without NULL in {self._text[:80]!r}")
        if self._word("comment"):
            self._next("comment")

    def _type(self, depth: int) -> pa.DataType:
        if depth > DEPTH_MAX:
            raise FormatError("the schema is nested too deeply")
        name = self._next("word").lower()
        if name == "struct":
            self._expect("<")
            return self._fields(">", depth + 1)
        if name == "array":
            self._expect("<")
            element = self._type(depth + 1)
            self._expect(">")
            return list_of(element)
        if name == "map":
            self._expect("<")
            key = self._type(depth + 1)
            self._expect(",")
            value = self._type(depth + 1)
            self._expect(">")
            return map_of(key, value)
        if name in {"decimal", "dec", "numeric"}:
            return decimal_of(*self._numbers((10, 0)))
        if name in {"varchar", "char"}:
            self._numbers((0, 0))
            return pa.string()
        if name not in _NAMES:
            raise FormatError(f"DDL: {name!r} is no type that a value can have")
        return _NAMES[name]

    def _numbers(self, default: tuple[int, int]) -> tuple[int, int]:
        if not self._skip("("):
            return default
        numbers = [self._number()]
        if self._skip(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers[0], (numbers[1] if len(numbers) > 1 else 0)

    def _number(self) -> int:
        word = self._next("word")
        if not word.isdecimal() or len(word) > 9:
            raise FormatError(f"DDL: {word!r} is no size")
        return int(word)

    def _next(self, *kinds: str) -> str:
        if self._at >= len(self._tokens):
            raise FormatError(f"DDL: {self._text[:80]!r} ends too early")
        kind, text = self._tokens[self._at]
        if kind not in kinds:
            raise FormatError(f"DDL: {text!r} is out of place in {self._text[:80]!r}")
        self._at += 1
        return text

    def _skip(self, sign: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign):
            self._at += 1
            return True
        return False

    def _word(self, word: str) -> bool:
        if self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == "word" and text.lower() == word:
                self._at += 1
                return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise FormatError(f"DDL: {sign!r} is missing in {self._text[:80]!r}")

    def _expect_end(self) -> None:
        if self._at < len(self._tokens):
            text = self._tokens[self._at][1]
            raise FormatError(f"DDL: {text!r} is out of place in {self._text[:80]!r}")
