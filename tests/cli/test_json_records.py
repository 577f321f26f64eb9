"""Records as lines of JSON: what is written is read back, whatever the bytes are."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.cli.json_records import as_json, marked, parse_line, unmarked
from ottla.cli.values import shown
from ottla.common.topic_partition import TopicPartition
from ottla.records.record import Record

PARTITION = TopicPartition("events", 3)
BYTES = st.none() | st.binary() | st.text().map(str.encode) | st.sampled_from([b"", b"0xff", b"0x"])
NAMES = st.text() | st.binary()


def parsed_name(name: str | bytes) -> str | bytes:
    """As it comes from a log: text if it is that."""
    try:
        return name if isinstance(name, str) else name.decode()
    except UnicodeDecodeError:
        return name


HEADERS = st.lists(st.tuples(NAMES.map(parsed_name), BYTES), max_size=4)


@given(BYTES, BYTES, HEADERS, st.integers(-1, (1 << 63) - 1))
@example(b"0xff", b"0xzz", [("0x", b"0x00")], 0)
@example(None, b"", [("", None), ("", b"")], -1)
@example("a zero-width\u200djoiner, \u2028 and \x85".encode(), b"\x00", [(b"\xff", b"\x1b")], 5)
@example(b'{"base64": "AA=="}', b"[1, 2]", [], 5)
def test_a_record_goes_to_a_line_and_back(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str | bytes, bytes | None]],
    timestamp: int,
) -> None:
    record = Record(key=key, value=value, timestamp=timestamp, offset=7, headers=headers)
    line = json.dumps(as_json(PARTITION, record), ensure_ascii=False).encode()
    assert b"\n" not in line
    read = parse_line(line)
    assert (read.key, read.value, read.headers) == (key, value, headers)
    assert (read.partition, read.timestamp, read.has_key) == (3, timestamp, True)


def test_text_stays_text_and_bytes_are_marked() -> None:
    assert marked(b"0xcafe") == "0xcafe"
    assert marked("zażółć\t🤦🏽‍♂️".encode()) == "zażółć\t🤦🏽‍♂️"
    assert marked(b"\xff\x00") == {"base64": "/wA="}
    assert marked(b"\x1b[2J") == {"base64": "G1sySg=="}
    assert unmarked({"a": [1, None]}) == b'{"a": [1, null]}'
    assert unmarked({"base64": "/wA=", "more": 1}) == b'{"base64": "/wA=", "more": 1}'


@given(BYTES)
def test_what_is_shown_as_hexadecimal_is_hexadecimal(data: bytes | None) -> None:
    text = shown(data)
    if data is None or text is None:
        assert (data, text) == (None, None)
    elif text.startswith("0x"):
        assert bytes.fromhex(text[2:]) == data
    else:
        assert text.encode() == data


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"vlaue": "x"}', 'unknown field "vlaue"; did you mean value?'),
        (
            '{"value": 1, "x": 1}',
            'unknown field "x"; known are topic, partition, offset, timestamp, key, value, headers',
        ),
        ('{"key": "k"}', 'there is no "value"; a null value is written as null'),
        ("[]", "not an object"),
        ('{"value": NaN}', "NaN is no JSON"),
        ('{"value": {"base64": "?"}}', 'not base64: "?"'),
        ('{"value": {"base64": 1}}', "not base64: 1"),
        ('{"value": 1, "partition": true}', "partition takes a number from 0 to 2147483647"),
        ('{"value": 1, "partition": -1}', "partition takes a number from 0 to 2147483647"),
        ('{"value": 1, "timestamp": 1e400}', "timestamp takes a number from -1 to"),
        ('{"value": 1, "headers": {"a": "b"}}', "headers are a list of objects"),
        ('{"value": 1, "headers": [{"value": "b"}]}', "a header is an object with key and value"),
        ('{"value": 1, "headers": [{"key": 1}]}', "the key of a header is text"),
        ('{"value": 1, "headers": [{"key": "a", "val": "b"}]}', 'unknown field "val"; did you'),
        ('{"value": "\\ud800"}', "half of a surrogate pair"),
        ('{"value": 1, "headers": [{"key": "\\udfff"}]}', "half of a surrogate pair"),
        ("{", "Expecting property name"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_line(line.encode())
    assert str(refused.value).startswith(complaint) or complaint in str(refused.value)
