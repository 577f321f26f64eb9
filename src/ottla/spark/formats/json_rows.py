"""JSON values one by one, for types that Arrow's reader does not know: maps and bytes."""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from ottla.spark.formats.spec import Fault, FormatError

Reader = Callable[[Any], Any]
_BITS: Final = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}


class BadField(ValueError):
    """A part of a value that is not of its type."""


class RowReader:
    """Reads values of one type; what does not fit is a fault of its row."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._read = _reader(kind)

    def read(self, lines: list[bytes | None]) -> tuple[pa.Array, list[Fault]]:
        rows: list[Any] = []
        faults: list[Fault] = []
        for row, line in enumerate(lines):
            made = None
            if line is not None:
                try:
                    parsed = json.loads(
                        line.decode(), parse_float=Fraction, object_pairs_hook=_object
                    )
                    made = self._read(parsed)
                except (ValueError, RecursionError) as error:
                    kind = "BadField" if isinstance(error, BadField) else "BadJson"
                    faults.append(Fault(row, kind, str(error)))
            rows.append(made)
        return pa.array(rows, self._type), faults


class Ambiguous(dict[str, Any]):
    """An object that has names more than once."""

    __slots__ = ("names",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.names = {name for name, count in counts.items() if count > 1}

    def check(self, wanted: Iterable[str]) -> None:
        """Which value is meant cannot be known; Arrow's reader refuses it, too."""
        for name in wanted:
            if name in self.names:
                raise ValueError(f"{name!r} was specified twice")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else Ambiguous(pairs)


class Fraction(str):
    """A number with a fraction, as it stands: a decimal loses nothing, a double is made of it."""

    __slots__ = ()


def _reader(kind: pa.DataType) -> Reader:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(_reader(kind.value_type))
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise FormatError(f"JSON: keys of a map are strings, not {kind.key_type}")
        return _map(_reader(kind.item_type))
    if kind in _BITS:
        return _integer(_BITS[kind])
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    for known, reader in _SCALARS:
        if known(kind):
            return reader if not pa.types.is_timestamp(kind) else _timestamp(kind)
    raise FormatError(f"JSON: no value can be read as {kind}")


def _struct(kind: pa.DataType) -> Reader:
    fields = [(each.name, _reader(each.type)) for each in kind]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _unfit(value, "an object")
        if type(value) is Ambiguous:
            value.check(name for name, _ in fields)
        made = {}
        for name, of_field in fields:
            part = value.get(name)
            if part is not None:
                try:
                    made[name] = of_field(part)
                except BadField as error:
                    raise BadField(f"{name}: {error}") from error
        return made

    return read


def _list(of_element: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise _unfit(value, "an array")
        return [None if each is None else of_element(each) for each in value]

    return read


def _map(of_value: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _unfit(value, "an object")
        if type(value) is Ambiguous:
            value.check(value)
        return [
            (_string(name), None if each is None else of_value(each))
            for name, each in value.items()
        ]

    return read


def _integer(bits: int) -> Reader:
    limit = 1 << bits

    def read(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise _unfit(value, f"an integer of {bits + 1} bits")
        return value

    return read


def _decimal(kind: pa.DataType) -> Reader:
    step = Decimal(1).scaleb(-kind.scale)
    limit = Decimal(10) ** (kind.precision - kind.scale)

    def read(value: Any) -> Any:
        if type(value) not in {int, str, Fraction}:
            raise _unfit(value, str(kind))
        try:
            made = Decimal(value)
            if made.is_finite() and abs(made) < limit and made == (exact := made.quantize(step)):
                return exact
        except InvalidOperation:
            pass
        raise _unfit(value, str(kind))

    return read


def _timestamp(kind: pa.DataType) -> Reader:
    def read(value: Any) -> Any:
        try:
            made = datetime.fromisoformat(_string(value))
            made = made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise _unfit(value, "a timestamp") from error
        return made if kind.tz else made.replace(tzinfo=None)

    return read


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(_string(value))
    except ValueError as error:
        raise _unfit(value, "a date") from error


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _unfit(value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadField("a string with half of a surrogate pair") from error
    return value


def _float(value: Any) -> float:
    if type(value) not in {int, Fraction}:
        raise _unfit(value, "a number")
    made = float(value)
    if made in {float("inf"), float("-inf")}:
        raise _unfit(value, "a number that fits")
    return made


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _unfit(value, "true or false")
    return value


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except binascii.Error as error:
        raise _unfit(value, "base64") from error


def _unfit(value: Any, wanted: str) -> BadField:
    return BadField(f"{str(value)[:60]!r} is not {wanted}")


_SCALARS: Final[list[tuple[Callable[[pa.DataType], bool], Reader]]] = [
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _float),
    (pa.types.is_string, _string),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _string),
]
