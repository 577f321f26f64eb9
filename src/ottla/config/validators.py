"""What a value must be beyond its type: ranges and lists of allowed values.

Each check is called with a key's name and a value and raises :class:`InvalidConfig` with the words
of Kafka's validators; its text is what the reference page shows.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.config.kinds import Value, invalid, text_of


class Check(NamedTuple):
    """A rule for values, and how it reads."""

    accept: Callable[[str, Value], None]
    text: str
    distinct: bool = False
    """Whether what a list repeats is dropped before it is checked."""

    def __call__(self, name: str, value: Value) -> None:
        self.accept(name, value)


def between(low: float | None, high: float | None) -> Check:
    """A number from ``low`` to ``high``, both included; None leaves that side open."""

    def accept(name: str, value: Value) -> None:
        if not isinstance(value, int | float):
            raise invalid(name, "null", "Value must be non-null")
        if low is not None and value < low:
            raise invalid(name, text_of(value), f"Value must be at least {low}")
        if high is not None and value > high:
            raise invalid(name, text_of(value), f"Value must be no more than {high}")

    if high is None:
        return Check(accept, f"at least {low}")
    return Check(accept, f"{low} to {high}")


def at_least(low: float) -> Check:
    return between(low, None)


def between_or(low: int, high: int, other: int) -> Check:
    """A number in a range, or one value outside of it."""

    def accept(name: str, value: Value) -> None:
        if not isinstance(value, int) or not (low <= value <= high or value == other):
            raise invalid(
                name, value, f"Value must be between {low} and {high} or equal to {other}"
            )

    return Check(accept, f"{low} to {high}, or {other}")


def one_of(*allowed: str) -> Check:
    def accept(name: str, value: Value) -> None:
        if value not in allowed:
            raise invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return Check(accept, ", ".join(allowed))


def one_of_in_any_case(*allowed: str) -> Check:
    def accept(name: str, value: Value) -> None:
        if str(value).upper() not in allowed:
            choices = ", ".join(allowed)
            raise invalid(name, value, f"String must be one of (case insensitive): {choices}")

    return Check(accept, ", ".join(allowed))


def _accept_non_empty(name: str, value: Value) -> None:
    if value == "":
        raise invalid(name, "", "String must be non-empty")


NON_EMPTY: Final = Check(_accept_non_empty, "not empty")


def distinct(*allowed: str, empty: bool = True) -> Check:
    """A list that drops what it repeats, of ``allowed`` values when any are named."""
    include = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"

    def accept(name: str, value: Value) -> None:
        if not isinstance(value, tuple):
            return
        if not value and not empty:
            raise InvalidConfig(
                f"Configuration '{name}' must not be empty. Valid values include: {include}"
            )
        for item in value:
            if not item:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            if allowed and item not in allowed:
                raise invalid(name, item, f"String must be one of: {', '.join(allowed)}")

    return Check(accept, ", ".join(allowed) or ("" if empty else "not empty"), distinct=True)


_REPLICA: Final = re.compile(r"(\d+:\d+)?", re.ASCII)
_REPLICAS: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def _accept_replicas(name: str, value: Value) -> None:
    if not isinstance(value, tuple) or value in {(), ("*",)}:
        return
    if not all(_REPLICA.fullmatch(item) for item in value):
        raise invalid(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            f"{_REPLICAS}",
        )


REPLICAS: Final = Check(_accept_replicas, "* or partition:broker, ...")

_DURATION: Final = re.compile(
    r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE
)


def _accept_offset_reset(name: str, value: Value) -> None:
    text = str(value)
    scheme, _, duration = text.partition(":")
    if text in {"earliest", "latest"}:
        return
    if scheme == "by_duration" and _DURATION.fullmatch(duration) is not None:
        return
    raise invalid(
        name,
        text,
        f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


OFFSET_RESET: Final = Check(_accept_offset_reset, "earliest, latest, by_duration:PnDTnHnMn.nS")


_PLAIN: Final = re.compile(r"[^\s\x00-\x1f]+")
_SCHEMES: Final = ("file", "s3", "gs", "az")


def _accept_plain(name: str, value: Value) -> None:
    if isinstance(value, str) and _PLAIN.fullmatch(value) is None:
        raise invalid(name, value, "String must be non-empty, without blanks")


PLAIN: Final = Check(_accept_plain, "without blanks")


def _accept_store(name: str, value: Value) -> None:
    if value is None:
        return
    scheme, separator, rest = str(value).partition("://")
    if not separator or scheme not in _SCHEMES:
        known = ", ".join(f"{each}://" for each in _SCHEMES)
        raise invalid(name, value, f"unknown scheme, known are {known}")
    if _PLAIN.fullmatch(rest) is None or not {"#", "?"}.isdisjoint(rest):
        raise invalid(name, value, "Blanks, # and ? are written as %20, %23 and %3F in addresses")


STORE: Final = Check(_accept_store, "file://, s3://, gs://, az://")


def _accept_endpoint(name: str, value: Value) -> None:
    if value is not None and re.fullmatch(r"https?://[^\s\x00-\x1f]+", str(value)) is None:
        raise invalid(name, value, "Not an address that begins with http:// or https://")


ENDPOINT: Final = Check(_accept_endpoint, "http://, https://")
