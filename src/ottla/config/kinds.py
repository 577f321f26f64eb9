"""The types that a setting may have, and how their values are read and written.

The rules are those of Kafka's ConfigDef: values are trimmed, numbers are Java's numbers, lists are
separated by commas. What cannot be read raises :class:`InvalidConfig` with Kafka's own wording.
"""

import re
from enum import IntEnum
from typing import Final

from ottla.common.errors import InvalidConfig


class Kind(IntEnum):
    """A type of setting, with the number that it has in a DescribeConfigs answer."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class HiddenValue:
    """A password: it can be asked for its value, but never shows it by accident."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiddenValue) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


Value = bool | int | float | str | tuple[str, ...] | HiddenValue | None

_BITS: Final = {Kind.INT: 31, Kind.SHORT: 15, Kind.LONG: 63}
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII
)
_SEPARATOR: Final = re.compile(r"\s*,\s*", re.ASCII)
_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java's ``String.trim`` takes away."""


def invalid(name: str, value: object, reason: str) -> InvalidConfig:
    """The refusal of a value, in the words of Kafka's ConfigException."""
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {reason}")


def parse(kind: Kind, name: str, text: str) -> Value:
    """The value that ``text`` stands for in a setting of this kind."""
    text = text.strip(_BLANKS)
    match kind:
        case Kind.STRING | Kind.CLASS:
            return text
        case Kind.BOOLEAN:
            return _parse_boolean(name, text)
        case Kind.INT | Kind.SHORT | Kind.LONG:
            return _parse_integer(kind, name, text)
        case Kind.DOUBLE:
            if _DOUBLE.fullmatch(text) is None:
                raise invalid(name, text, "Not a number of type DOUBLE")
            return float(text.rstrip("fFdD"))
        case Kind.LIST:
            return tuple(_SEPARATOR.split(text)) if text else ()
        case Kind.PASSWORD:
            return HiddenValue(text)


def _parse_boolean(name: str, text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise invalid(name, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_integer(kind: Kind, name: str, text: str) -> int:
    bound = 1 << _BITS[kind]
    if _INTEGER.fullmatch(text) is None or not -bound <= int(text) < bound:
        raise invalid(name, text, f"Not a number of type {kind.name}")
    return int(text)


def text_of(value: Value) -> str | None:
    """The value as Kafka writes it; passwords are never written."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def double_text(value: float) -> str:
    """A double as Java writes it: 0.5, 1.0E7, 1.0E-5."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"  # noqa: PLR0124
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    for digits in range(1, 18):
        shorter = f"{value:.{digits}e}"
        if float(shorter) == value:
            mantissa, _, exponent = shorter.partition("e")
            break
    return f"{mantissa}E{int(exponent)}"
