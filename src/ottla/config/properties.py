r"""Java's ``.properties`` files, in which Kafka keeps its settings and its meta.properties.

A line is ``key=value``; ``:`` and blanks separate as well. A backslash at the end joins lines,
before a character it takes its special meaning away, and ``\uXXXX`` is a character by its number.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_SPECIAL: Final = frozenset("=:#!")


def located_properties(text: str) -> dict[str, tuple[str, int]]:
    """Each key with its value and the number of the line that it begins on."""
    properties: dict[str, tuple[str, int]] = {}
    for number, line in _logical_lines(text):
        end = _key_end(line)
        start = end + _blank_count(line, end)
        if start < len(line) and line[start] in "=:":
            start += 1
            start += _blank_count(line, start)
        properties[_unescape(line[:end])] = _unescape(line[start:]), number
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """The text of a file that holds these properties, in their order."""
    return "".join(
        f"{_escape(key, every_blank=True)}={_escape(value, every_blank=False)}\n"
        for key, value in properties.items()
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, blank lines and leading blanks, joined where they are continued."""
    pending: str | None = None
    first = 0
    if text.endswith(("\n", "\r")):
        text = text[:-1]  # behind the last line there is not one more, to which it could be joined
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            pending = None  # a backslash alone has begun nothing
            continue
        if pending is None:
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        joined = (pending or "") + line
        if backslashes % 2:
            pending = joined[:-1]
        else:
            pending = None
            yield first, joined
    if pending is not None:
        yield first, pending


def _key_end(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 1
        elif line[position] in "=:" or line[position] in _BLANKS:
            break
        position += 1
    return min(position, len(line))


def _blank_count(line: str, start: int) -> int:
    return len(line) - start - len(line[start:].lstrip(_BLANKS))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            units.append(character)
        elif position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                units.append(_unicode(text[position : position + 4]))
                position += 4
            else:
                units.append(_ESCAPES.get(character, character))
    # Characters beyond 16 bits are written as two escapes, which belong together.
    return "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
        raise ValueError(f"malformed \\uXXXX escape: \\u{digits}")
    return chr(int(digits, 16))


def _escape(text: str, *, every_blank: bool) -> str:
    parts: list[str] = []
    for index, character in enumerate(text):
        if character == " ":
            parts.append("\\ " if every_blank or index == 0 else " ")
        elif character in _WRITTEN:
            parts.append(_WRITTEN[character])
        elif character in _SPECIAL:
            parts.append("\\" + character)
        elif " " < character < "\x7f":
            parts.append(character)
        else:
            parts.append(_escape_units(character))
    return "".join(parts)


def _escape_units(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex().upper()}" for at in range(0, len(data), 2))
