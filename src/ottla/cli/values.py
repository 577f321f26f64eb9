"""Keys and values of records, which are bytes, as text."""

from collections.abc import Iterable, Mapping
from typing import Final
from unicodedata import category

HEX: Final = "0x"
_LAYOUT: Final = "\t\n\r"


def plain_text(data: bytes) -> str | None:
    """The text that bytes are, if they are UTF-8 without control characters."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if text.isprintable():
        return text
    readable = all(each in _LAYOUT or category(each) != "Cc" for each in text)
    return text if readable else None


def shown(data: bytes | None) -> str | None:
    """Text if it is that, else hexadecimal; None stays None.

    Text that looks like our hexadecimal is shown so itself: what begins with 0x always is.
    """
    if data is None:
        return None
    text = plain_text(data)
    return HEX + data.hex() if text is None or text.startswith(HEX) else text


def shown_headers(
    headers: Iterable[tuple[str | bytes, bytes | None]],
) -> list[Mapping[str, object]]:
    """Headers as a list, since a name may come twice."""
    return [
        {"key": name if isinstance(name, str) else shown(name), "value": shown(value)}
        for name, value in headers
    ]
