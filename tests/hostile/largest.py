"""The largest requests of every API: each of its lists filled, with names that are there and not.

Made from the schema, so that a new API, or a new list in an old one, is among them by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ottla.protocol.api import Api
from ottla.protocol.message import Message
from ottla.protocol.message import Struct as StructValue
from ottla.protocol.schema_reader import Field, StructSchema
from ottla.protocol.schemas import message_class, schema_of, struct_class

Names = Literal["known", "unknown", "half", "same"]
"""There, not there, each second one there, and one again and again."""
NAMES: Final[tuple[Names, ...]] = ("known", "unknown", "half", "same")
MISSING: Final = 1_000_000

WIDE: Final = "wide"
"""The topic with many partitions."""
NUMBERS: Final = {
    "timeout_ms": 30_000,
    "max_wait_ms": 0,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 1_000_000,
    "acks": 1,
    "replica_id": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "response_partition_limit": 2_000,
    "timestamp": -1,
}
TYPES: Final = {"resource_type": (2, 4, 8, 16, 32), "key_type": (0, 1), "resource_types": (2,)}
"""What a whole request is about; each gets requests of its own."""


@dataclass(frozen=True)
class Filled:
    """A request with one list of ``count`` items; the others have one."""

    api: Api
    version: int
    path: tuple[str, ...]
    """Of the list."""
    names: Names
    kind: int
    """Which of ``TYPES``."""
    alone: bool
    """Whether the other lists are empty, or null, which often asks for everything."""

    def __str__(self) -> str:
        alone = " alone" if self.alone else ""
        return f"{self.api.name}.{'.'.join(self.path)} {self.names} {self.kind}{alone}"

    def make(self, count: int) -> Message:
        schema = schema_of(f"{self.api.name}Request")
        message = message_class(schema.name)()
        self._fill(message, schema.root, (), 0, count)
        return message

    def _fill(
        self, value: StructValue, schema: StructSchema, path: tuple[str, ...], i: int, count: int
    ) -> None:
        message = f"{self.api.name}Request"
        for field in schema.fields:
            if self.version not in field.versions:
                continue
            here = (*path, field.name)
            if field.array:
                if self.alone and here != self.path[: len(here)]:
                    setattr(value, field.name, None if field.null_in(self.version) else [])
                    continue
                number = count if here == self.path else 1
                items: list[object] = []
                for j in range(number):
                    index = j if here == self.path else i
                    if field.struct is None:
                        items.append(self._single(field, index, here))
                        continue
                    item = struct_class(message, field.struct.name)()
                    self._fill(item, field.struct, here, index, count)
                    items.append(item)
                setattr(value, field.name, items)
            elif field.struct is not None:
                inner = struct_class(message, field.struct.name)()
                self._fill(inner, field.struct, here, i, count)
                setattr(value, field.name, inner)
            elif field.tag is None:
                found = self._single(field, i, here, getattr(value, field.name))
                setattr(value, field.name, found)

    def _single(
        self, field: Field, i: int, path: tuple[str, ...], default: object = None
    ) -> object:
        name = field.name
        if self.names == "same":
            i = 0
        if name in TYPES:
            kinds = TYPES[name]
            return kinds[self.kind % len(kinds)]
        if name in NUMBERS:
            return NUMBERS[name]
        if field.type == "string":
            return self._name(field, i, path)
        if field.type == "uuid":
            return (i + 1).to_bytes(16, "big")
        if field.type in ("bytes", "records"):
            return b""
        if field.type == "bool":
            return name == "validate_only" or default
        if field.type == "float64":
            return 0.0
        if "partition" in name or "broker" in name or "replica" in name:
            number = i + MISSING if self._is_missing(i) else i
            return number if field.type in ("int32", "int64") else 0
        return default if default is not None else 0

    def _is_missing(self, i: int) -> bool:
        return self.names == "unknown" or (self.names == "half" and i % 2 == 1)

    def _name(self, field: Field, i: int, path: tuple[str, ...]) -> str:
        if "configs" in path:
            return "retention.ms" if field.name == "name" else "1000"
        inner = "partition" in self.path[-1]
        if self._is_missing(i) and not (self.names == "half" and inner):
            return f"missing-{i}"
        if (field.entity or "").startswith("topic") or "topic" in field.name:
            return WIDE if inner else f"t-{i}"
        if field.name == "resource_name":
            return "1" if TYPES["resource_type"][self.kind] in (4, 8) else f"t-{i}"
        return f"t-{i}"


def largest(api: Api, version: int) -> Iterator[Filled]:
    """All requests of an API with one long list."""
    schema = schema_of(f"{api.name}Request")
    for path in _lists(schema.root, version, ()):
        kinds = max((len(TYPES[name]) for name in _fields(schema.root) if name in TYPES), default=1)
        for kind in range(kinds):
            for names in NAMES:
                for alone in (False, True):
                    yield Filled(api, version, path, names, kind, alone)


def _lists(schema: StructSchema, version: int, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in schema.fields:
        if version not in field.versions:
            continue
        here = (*path, field.name)
        if field.array:
            yield here
        if field.struct is not None:
            yield from _lists(field.struct, version, here)


def _fields(schema: StructSchema) -> Iterator[str]:
    for field in schema.fields:
        yield field.name
        if field.struct is not None:
            yield from _fields(field.struct)
