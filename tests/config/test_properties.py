"""Properties files are read and written as Java does; javaproperties is the second opinion."""

import re

import javaproperties
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.config.properties import parse_properties

from ottla.config.properties import format_properties, located_properties

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\x00")
PROPERTIES = st.dictionaries(st.text(CHARACTERS), st.text(CHARACTERS), max_size=8)
SYNTAX = st.text(st.sampled_from("ab\\ \t\f\n\r=:#!u04é"), max_size=40)

LONE_BACKSLASH = re.compile(r"(^|[\r\n])[ \t\f]*\\([\r\n]|$)")


@given(PROPERTIES)
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(PROPERTIES)
def test_javaproperties_reads_what_we_write(properties: dict[str, str]) -> None:
    assert javaproperties.loads(format_properties(properties)) == properties


@given(PROPERTIES)
def test_we_read_what_javaproperties_writes(properties: dict[str, str]) -> None:
    assert parse_properties(javaproperties.dumps(properties, timestamp=False)) == properties


@given(SYNTAX)
@example("a\\\n\n0")
def test_odd_texts_are_read_as_javaproperties_reads_them(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(ValueError, match="malformed"):
            parse_properties(text)
    else:
        # Of a line that is a lone backslash javaproperties makes other things than Java does.
        assume(LONE_BACKSLASH.search(text) is None)
        assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "read_by_java"),
    [
        ("a=1\n\\", {"a": "1", "": ""}),
        ("\\\n", {"": ""}),
        ("\\\r\n", {}),
        ("\\\n\n", {}),
        ("\\\r\r0", {"0": ""}),
        ("\\\n#0", {}),
        ("\\\n \\\n\n b", {"b": ""}),
        ("a\\\n#0", {"a#0": ""}),
        ("a\\\r\n\n0", {"a": "", "0": ""}),
    ],
)
def test_a_lone_backslash_begins_no_line_unless_the_file_ends_there(
    text: str, read_by_java: dict[str, str]
) -> None:
    """As a JDK reads them, which javaproperties does not in each case."""
    assert parse_properties(text) == read_by_java


def test_a_file_of_a_broker_is_read() -> None:
    text = """
    # a comment
    node.id = 1
    listeners=PLAINTEXT://:9092,\\
              CONTROLLER://:9093
    ! another
    log.dirs: /data\\ 1
    empty
    """
    assert parse_properties(text) == {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "log.dirs": "/data 1",
        "empty": "",
    }


def test_what_is_written_is_plain_ascii() -> None:
    assert format_properties({"a b": " é𝄞"}) == "a\\ b=\\ \\u00E9\\uD834\\uDD1E\n"


def test_each_key_is_known_by_its_line() -> None:
    text = "# first\n\na=1\nb = 2 \\\n  and 3\n\\\nc:4\r\n!d=5\r\na=6"
    assert located_properties(text) == {"a": ("6", 9), "b": ("2 and 3", 4), "c": ("4", 6)}
