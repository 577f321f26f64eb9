"""Records as lines of JSON: what ``consume --json`` writes, ``produce --from-json`` reads back.

Nothing is lost on the way. Text is a string, whatever it begins with; bytes that are no text are
``{"base64": "..."}``; null is null, which is not the empty string.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ottla.cli.values import plain_text

if TYPE_CHECKING:
    from ottla.common.topic_partition import TopicPartition
    from ottla.records.record import Record

BASE64: Final = "base64"
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""What a line may have; topic and offset are for readers, and written nowhere."""
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1

Headers = list[tuple[str | bytes, bytes | None]]


class JsonRecord(NamedTuple):
    """A record that a line of JSON stands for."""

    key: bytes | None
    has_key: bool
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp: int | None


def as_json(partition: "TopicPartition", record: "Record") -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": marked(record.key),
        "value": marked(record.value),
        "headers": [
            {"key": name if isinstance(name, str) else marked(name), "value": marked(value)}
            for name, value in record.headers
        ],
    }


def marked(data: bytes | None) -> str | dict[str, str] | None:
    """Text as it is, other bytes by a mark that says so."""
    if data is None:
        return None
    text = plain_text(data)
    return {BASE64: b64encode(data).decode()} if text is None else text


def parse_line(line: bytes) -> JsonRecord:
    """The record of a line; ValueError says what is wrong with it."""
    content = json.loads(line, parse_constant=_refuse_constant)
    if not isinstance(content, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the text is wrong, no argument
    _check_fields(content, FIELDS)
    if "value" not in content:
        raise ValueError('there is no "value"; a null value is written as null')
    return JsonRecord(
        unmarked(content.get("key")),
        "key" in content,
        unmarked(content["value"]),
        _headers(content.get("headers")),
        _number(content, "partition", 0, _INT32_MAX),
        _number(content, "timestamp", -1, _INT64_MAX),
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _check_fields(content: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in content:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            question = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise ValueError(f"unknown field {json.dumps(name, ensure_ascii=False)}{question}")


def unmarked(value: object) -> bytes | None:
    """What a key or value in JSON stands for: text, marked bytes, or else JSON itself."""
    if value is None:
        return None
    if isinstance(value, str):
        return _utf_8(value)
    if isinstance(value, dict) and value.keys() == {BASE64}:
        return _decoded(value[BASE64])
    return _utf_8(json.dumps(value, ensure_ascii=False))


def _utf_8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"not text, a half of a surrogate pair: {json.dumps(text)}") from None


def _decoded(text: object) -> bytes:
    try:
        return b64decode(text if isinstance(text, str) else "?", validate=True)
    except ValueError:
        raise ValueError(f"not base64: {json.dumps(text, ensure_ascii=False)}") from None


def _headers(content: object) -> Headers:
    if content is None:
        return []
    if not isinstance(content, list):
        raise ValueError("headers are a list of objects with key and value")  # noqa: TRY004
    return [_header(each) for each in content]


def _header(content: object) -> tuple[str | bytes, bytes | None]:
    if not isinstance(content, dict) or "key" not in content:
        raise ValueError("a header is an object with key and value")
    _check_fields(content, ("key", "value"))
    name = content["key"]
    if isinstance(name, str):
        _utf_8(name)
        return name, unmarked(content.get("value"))
    if isinstance(name, dict) and name.keys() == {BASE64}:
        return _decoded(name[BASE64]), unmarked(content.get("value"))
    raise ValueError("the key of a header is text")


def _number(content: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    number = content.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
        raise ValueError(f"{name} takes a number from {low} to {high}, not {json.dumps(number)}")
    return number
