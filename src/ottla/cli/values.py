"""Keys and values of records, which are bytes, as text."""

from collections.abc import Iterable, Mapping
from typing import Final

HEX: Final = "0x"


def shown(data: bytes | None) -> str | None:
    """Text when it is UTF-8 without control characters, else hexadecimal; None stays None."""
    if data is None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return HEX + data.hex()
    if all(character.isprintable() or character in "\t\n\r" for character in text):
        return text
    return HEX + data.hex()


def shown_headers(
    headers: Iterable[tuple[str | bytes, bytes | None]],
) -> list[Mapping[str, object]]:
    """Headers as a list, since a name may come twice."""
    return [
        {"key": name if isinstance(name, str) else shown(name), "value": shown(value)}
        for name, value in headers
    ]
