"""Random messages, every one in every version: there and back, and as a second encoder says."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.protocol import reference
from tests.protocol.samples import full_message, messages
from tests.protocol.vectors import names_and_versions

from ottla.protocol.describe import from_json, to_json
from ottla.protocol.generated.index import MODULES
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.protocol.schemas import message_class, schema_of

quickly = settings(
    max_examples=5,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_message_survives_the_wire(name: str) -> None:
    cls = message_class(name)
    for version in range(cls.LOWEST_VERSION, cls.HIGHEST_VERSION + 1):
        _survives(name, version)


def _survives(name: str, version: int) -> None:
    cls, schema = message_class(name), schema_of(name)

    @quickly
    @given(messages(name, version))
    def survives(message: Message) -> None:
        data = to_bytes(message, version)
        assert data == reference.join(reference.encode(schema, message, version))
        assert from_bytes(cls, data, version) == message

    survives()


def test_a_message_with_something_everywhere_survives_the_wire_and_json() -> None:
    for name, version in names_and_versions():
        message = full_message(name, version)
        data = to_bytes(message, version)
        assert data == reference.join(reference.encode(schema_of(name), message, version))
        assert from_bytes(type(message), data, version) == message
        again = from_json(name, to_json(message, version), version)
        assert to_json(again, version) == to_json(message, version)


def test_a_message_of_defaults_survives_the_wire_and_json() -> None:
    for name, version in names_and_versions():
        message = message_class(name)()
        data = to_bytes(message, version)
        assert data == reference.join(reference.encode(schema_of(name), message, version))
        assert from_bytes(type(message), data, version) == message
        assert from_json(name, to_json(message, version), version) == message
