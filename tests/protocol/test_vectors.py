"""Byte for byte what Apache Kafka's own serializer wrote, both ways, and in its JSON form."""

from typing import Any

from tests.protocol.vectors import names_and_versions, vectors

from ottla.protocol.describe import from_json, to_json
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.schema_reader import StructSchema
from ottla.protocol.schemas import message_class, schema_of


def test_every_message_and_version_has_a_vector() -> None:
    assert len(vectors()) == 1_566
    assert set(names_and_versions()) == {(vector.name, vector.version) for vector in vectors()}


def test_every_vector_is_decoded_and_encoded_to_the_same_bytes() -> None:
    for vector in vectors():
        message = from_bytes(message_class(vector.name), vector.data, vector.version)
        assert to_bytes(message, vector.version) == vector.data, vector


def test_the_json_of_every_vector_becomes_its_bytes() -> None:
    for vector in vectors():
        message = from_json(vector.name, vector.json, vector.version)
        assert to_bytes(message, vector.version) == vector.data, vector


def test_the_bytes_of_every_vector_become_its_json() -> None:
    for vector in vectors():
        message = from_bytes(message_class(vector.name), vector.data, vector.version)
        expected = as_kafka_writes(schema_of(vector.name).root, vector.json, vector.version)
        assert to_json(message, vector.version) == expected, vector


def as_kafka_writes(schema: StructSchema, value: dict[str, Any], version: int) -> dict[str, Any]:
    """Leave out tagged fields at their default: some vectors name them, the wire cannot."""
    defaults = to_default_json(schema, version)
    out = {}
    for item in schema.fields:
        if item.json_name not in value:
            continue
        one = value[item.json_name]
        if item.tag is not None and one == defaults[item.json_name]:
            continue
        if item.struct is not None and one is not None:
            if item.array:
                one = [as_kafka_writes(item.struct, inner, version) for inner in one]
            else:
                one = as_kafka_writes(item.struct, one, version)
        out[item.json_name] = one
    return out


def to_default_json(schema: StructSchema, version: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for item in schema.fields:
        if version not in item.versions:
            continue
        if item.default is not None:
            known = {"null": None, "true": True, "false": False}
            out[item.json_name] = (
                known[item.default] if item.default in known else int(item.default, 0)
            )
        elif item.array:
            out[item.json_name] = []
        elif item.struct is not None:
            out[item.json_name] = to_default_json(item.struct, version)
        else:
            simple = {"string": "", "uuid": "A" * 22, "bool": False, "bytes": "", "float64": 0.0}
            out[item.json_name] = simple.get(item.type, 0)
    return out
