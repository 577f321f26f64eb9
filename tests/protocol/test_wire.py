"""``ottla wire decode`` and ``ottla wire encode``."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.protocol.vectors import vectors
from tools.installed import IMPORT_PATH

from ottla.cli.wire import wire

GOOD = '{"name":"HeartbeatResponse","version":1,"hex":"0000000a001b"}'
GOOD_JSON = {"throttleTimeMs": 10, "errorCode": 27}


def run(command: str, lines: str | bytes) -> tuple[Result, list[dict[str, Any]]]:
    result = CliRunner().invoke(wire, [command], input=lines)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result, [json.loads(line) for line in result.stdout.splitlines()]


def test_a_line_of_hex_becomes_a_line_of_json() -> None:
    result, (line,) = run("decode", GOOD + "\n")
    assert result.exit_code == 0
    assert line == {"name": "HeartbeatResponse", "version": 1, "json": GOOD_JSON}


def test_a_line_of_json_gets_its_hex() -> None:
    given = {"name": "HeartbeatResponse", "version": 1, "json": GOOD_JSON}
    result, (line,) = run("encode", json.dumps(given))
    assert result.exit_code == 0
    assert line == {**given, "hex": "0000000a001b"}


def test_all_vectors_go_through_both_commands() -> None:
    lines = [
        json.dumps({"name": v.name, "version": v.version, "hex": v.data.hex()}) for v in vectors()
    ]
    decoded, rows = run("decode", "\n".join(lines))
    assert decoded.exit_code == 0
    encoded, again = run("encode", decoded.stdout_bytes)
    assert encoded.exit_code == 0
    assert [row["hex"] for row in again] == [v.data.hex() for v in vectors()]
    assert [(r["name"], r["version"]) for r in rows] == [(v.name, v.version) for v in vectors()]


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[]", "a JSON object is expected"),
        ("null", "a JSON object is expected"),
        ("{}", '"name" must be of type str'),
        ('{"name":5}', '"name" must be of type str'),
        ('{"name":"No","version":0,"hex":""}', "no message is called 'No'"),
        ('{"name":"HeartbeatResponse","hex":""}', '"version" must be of type int'),
        ('{"name":"HeartbeatResponse","version":true,"hex":""}', '"version" must be of type int'),
        ('{"name":"HeartbeatResponse","version":9,"hex":""}', "has no version 9"),
        ('{"name":"HeartbeatResponse","version":0}', '"hex" must be of type str'),
        ('{"name":"HeartbeatResponse","version":0,"hex":"0"}', "non-hexadecimal"),
        ('{"name":"HeartbeatResponse","version":0,"hex":"00"}', "cut short"),
        ('{"name":"HeartbeatResponse","version":0,"hex":"000000"}', "1 bytes too many"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_bad_line_becomes_an_error_in_its_place_and_the_others_go_on(
    bad: str, complaint: str
) -> None:
    result, lines = run("decode", f"{GOOD}\n{bad}\n{GOOD}\n")
    assert result.exit_code == 1
    assert len(lines) == 3
    assert lines[0] == lines[2]
    assert list(lines[1]) == ["error"]
    assert complaint in lines[1]["error"]


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ('{"errorCode":70000,"throttleTimeMs":0}', "int16 is expected"),
        ('{"errorCode":0}', "throttleTimeMs: missing"),
        ("[]", '"json" must be of type dict'),
    ],
)
def test_json_that_is_no_such_message_becomes_an_error(form: str, complaint: str) -> None:
    bad = f'{{"name":"HeartbeatResponse","version":1,"json":{form}}}'
    result, (line,) = run("encode", bad)
    assert result.exit_code == 1
    assert complaint in line["error"]


def test_bytes_that_are_no_utf8_and_half_a_surrogate_pair_become_errors() -> None:
    half = b'{"name":"TopicRecord","version":0,"json":{"name":"\\ud800","topicId":"' + b"A" * 22
    result, lines = run("encode", b"\xff\xfe\n" + half + b'"}}\n')
    assert result.exit_code == 1
    assert [list(line) for line in lines] == [["error"], ["error"]]


def test_text_that_is_no_ascii_is_written_as_utf8() -> None:
    record = {"name": "카프카", "topicId": "A" * 22}
    given = json.dumps({"name": "TopicRecord", "version": 0, "json": record})
    result, (line,) = run("encode", given)
    assert "카프카".encode() in result.stdout_bytes
    assert line["json"] == record


def test_it_works_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from ottla.cli.wire import wire; wire()", "decode"],
        input=f"{GOOD}\nbad\n".encode(),
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert [list(json.loads(line)) for line in done.stdout.splitlines()] == [
        ["name", "version", "json"],
        ["error"],
    ]
    assert done.stderr == b""


def test_help_says_what_goes_in_and_out() -> None:
    result = CliRunner().invoke(wire, ["decode", "--help"])
    assert result.exit_code == 0
    assert '{"name", "version", "hex"}' in result.output
