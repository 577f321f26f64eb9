"""What kafka-python, which wrote its codec on its own, makes of the same bytes."""

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from tests.protocol.samples import full_message
from tests.protocol.vectors import names_and_versions, vectors

from ottla.protocol.message import to_bytes

OTHERWISE = {
    "ApiVersionsResponse",  # its decode expects the error code alone at first
    "ConsumerProtocolAssignment",  # its decode expects the version in front
    "ConsumerProtocolSubscription",
}


@cache
def packages() -> list[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own schemas
        names = ("admin", "consumer", "metadata", "producer")
        return [import_module(f"kafka.protocol.{name}") for name in names]


def their_class(name: str, version: int) -> Any:
    for package in packages():
        cls = getattr(package, name, None)
        if cls is not None and cls.min_version <= version <= cls.max_version:
            return cls if name not in OTHERWISE else None
    return None


def there_and_back(cls: Any, data: bytes, version: int) -> bytes:
    message = cls.decode(data, version=version)
    message._header = None
    return bytes(message.encode(version=version))


def test_kafka_python_reads_and_writes_what_we_write() -> None:
    compared = 0
    for name, version in names_and_versions():
        cls = their_class(name, version)
        if cls is not None:
            message = full_message(name, version, unknown_tags=False)
            data = to_bytes(message, version)
            assert there_and_back(cls, data, version) == data, (name, version)
            theirs = cls.decode(data, version=version)
            for field in message.__slots__:
                ours = getattr(message, field)
                # Sets of operations are no numbers there.
                if isinstance(ours, int | str) and not field.endswith("operations"):
                    assert getattr(theirs, field) == ours, (name, version, field)
            compared += 1
    assert compared > 400


def test_kafka_python_reads_and_writes_the_vectors() -> None:
    for vector in vectors():
        cls = their_class(vector.name, vector.version)
        if cls is not None:
            again = there_and_back(cls, vector.data, vector.version)
            assert again == vector.data, (vector.name, vector.version)
