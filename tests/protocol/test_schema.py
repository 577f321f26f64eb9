"""The notation, and that the generated code is what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.schema_reader import SchemaError, Versions, parse_versions, read_schema

PROJECT = Path(__file__).resolve().parents[2]

EXAMPLE = """
# A comment.
api Heartbeat  key 12  versions 0-4  flexible 4+  listener broker,controller  forwardable

request
  group_id           string     0+   is GroupId
  group_instance_id  string?3+  2+   = null  ignorable
  topics             [Topic]?   1-3  # another comment
    name             string     1+   key
    partitions       [int32]    0+
  place              Place      4+   tag 2

  struct Place  0+
    rack             bytes      0+

response
  error_code         int16      0+   = -1
"""


def test_an_api_is_read_with_all_its_marks() -> None:
    schema = read_schema(EXAMPLE)
    assert schema.api is not None
    assert schema.api.listeners == ("broker", "controller")
    assert (schema.api.forwardable, schema.api.cluster_action, schema.api.unstable) == (
        True,
        False,
        False,
    )
    request, response = schema.messages
    assert (request.name, request.kind, request.key) == ("HeartbeatRequest", "request", 12)
    group, instance, topics, place = request.root.fields
    assert group.entity == "GroupId"
    assert instance.json_name == "groupInstanceId"
    assert (instance.versions, instance.nullable) == (Versions(2, 4), Versions(3, 4))
    assert (instance.default, instance.ignorable) == ("null", True)
    assert (topics.array, topics.versions, topics.nullable) == (
        True,
        Versions(1, 3),
        Versions(1, 3),
    )
    assert topics.struct is not None
    assert topics.struct.versions == Versions(1, 3)
    assert topics.struct.fields[0].map_key
    assert place.tag == 2
    assert place.struct is not None
    assert place.struct.versions == Versions(4, 4)
    assert response.root.fields[0].default == "-1"


def test_a_record_is_read() -> None:
    schema = read_schema("metadata TopicRecord  key 2  versions 0  flexible 0+\n  name string 0+")
    assert schema.api is None
    (record,) = schema.messages
    assert (record.kind, record.key, record.versions) == ("metadata", 2, Versions(0, 0))
    assert record.flexible == Versions(0, 0)


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", (3, 3)), ("3+", (3, 0x7FFF)), ("3-5", (3, 5)), ("none", (0, -1))],
)
def test_versions_are_read(text: str, versions: tuple[int, int]) -> None:
    assert parse_versions(text) == versions
    assert parse_versions(text).empty == (text == "none")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("apy X", "line 1: unknown word 'apy'"),
        ("request\n  a int8 0+", "line 1: request without an api"),
        ("data X  versions 0  flexible", "line 1: a mark without its value: 'flexible'"),
        (
            "data X  versions 0  flexible none\n  a int8",
            "line 2: a field needs a name, a type and versions",
        ),
        ("data X  versions 0  flexible none\n  a int8 x", "line 2: not a range of versions: 'x'"),
        ("data X  versions 0  flexible none\n  a [int8 0+", "line 2: not a type: '[int8'"),
        ("data X  versions 0  flexible none\n  a int8 0+ shiny", "line 2: unknown mark 'shiny'"),
        ("data X  versions 0  flexible none\n  a [Y] 0+", "line 2: a: unknown type Y"),
        ("data X  versions 0  flexible none\n  a int8 0+\n    b int8 0+", "line 3: a is no struct"),
        (
            "data X  versions 0  flexible none\n    a int8 0+\n  b int8 0+",
            "line 3: uneven indentation",
        ),
        ("data X  versions 0  flexible none\n  a int8 0+ tag x", "line 2: not a number: 'x'"),
        (
            "data X  versions 0  flexible none\n  struct Y",
            "line 2: a struct needs a name and versions",
        ),
        (
            "data X  versions 0",
            "line 1: these marks are needed, and no others: flexible, versions",
        ),
        ("  a int8 0+", "line 1: unexpected indentation"),
        (
            "data X  versions 0  flexible none\n  a [Y] 0+\n   b int8 0+\n  c [Y] 0+\n   b int8 0+",
            "line 5: struct Y is described twice",
        ),
    ],
)
def test_a_line_that_is_wrong_is_named(text: str, complaint: str) -> None:
    with pytest.raises(SchemaError) as error:
        read_schema(text)
    assert str(error.value) == complaint


def test_the_generated_code_is_what_the_schema_says() -> None:
    done = subprocess.run(
        [sys.executable, "tools/protocolgen", "--check"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_generated_module_names_its_source_in_its_first_line() -> None:
    package = PROJECT / "src" / "ottla" / "protocol"
    schemas = {path.stem for path in (package / "schema").glob("*.kafka")}
    for path in (package / "generated").glob("*.py"):
        if path.stem != "__init__":
            first, _, _ = path.read_text().partition("\n")
            source = path.stem if path.stem in schemas else "*"
            assert first == (
                f"# Generated by tools/protocolgen from schema/{source}.kafka. Do not edit."
            )
