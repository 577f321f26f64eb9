"""``ottla wire``: messages of the protocol as JSON and back, one line each.

Input and output keep step: line n of the output belongs to line n of the input. A line that is
wrong becomes ``{"error": ...}`` in its place, the others go on, and the exit code is 1.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from ottla.common.errors import ProtocolViolation
from ottla.protocol.describe import from_json, to_json
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.schemas import message_class

Line = dict[str, Any]


@click.group()
def wire() -> None:
    """Translate messages between the wire and JSON.

    Both commands read JSON lines from standard input and write as many to standard output. Names
    are those of Apache Kafka's schemas: FetchRequest, TopicRecord, OffsetCommitKey, ...
    """


@wire.command()
def decode() -> None:
    """Read {"name", "version", "hex"}, write {"name", "version", "json"}."""
    _translate(_decode_line)


@wire.command()
def encode() -> None:
    """Read {"name", "version", "json"}, write the same with "hex" added."""
    _translate(_encode_line)


def _decode_line(line: Line) -> Line:
    name, version = _name_and_version(line)
    data = bytes.fromhex(_member(line, "hex", str))
    message = from_bytes(message_class(name), data, version)
    return {"name": name, "version": version, "json": to_json(message, version)}


def _encode_line(line: Line) -> Line:
    name, version = _name_and_version(line)
    message = from_json(name, _member(line, "json", dict), version)
    hexadecimal = to_bytes(message, version).hex()
    return {"name": name, "version": version, "json": line["json"], "hex": hexadecimal}


def _name_and_version(line: Line) -> tuple[str, int]:
    name, version = _member(line, "name", str), _member(line, "version", int)
    try:
        message_class(name)
    except KeyError:
        raise ValueError(f"no message is called {name!r}") from None
    return name, version


def _member(line: Line, key: str, kind: type) -> Any:
    value = line.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        wrong = f'"{key}" must be of type {kind.__name__}'
        raise ValueError(wrong)  # noqa: TRY004 - the line is wrong, not the program
    return value


def _translate(translate: Callable[[Line], Line]) -> None:
    target = sys.stdout.buffer
    failed = False
    for raw in sys.stdin.buffer:
        try:
            line = json.loads(raw.rstrip().decode("utf-8"))
            if not isinstance(line, dict):
                raise ValueError("a JSON object is expected")  # noqa: TRY004 - as above
            answer = translate(line)
        except (ValueError, ProtocolViolation, RecursionError) as error:
            failed = True
            answer = {"error": str(error)}
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # Half a surrogate pair, which JSON may name and UTF-8 may not contain, stays an escape.
        target.write(text.encode("utf-8", "backslashreplace") + b"\n")
        target.flush()
    if failed:
        raise SystemExit(1)
