"""What a format needs to know, and what it answers.

A :class:`FormatSpec` is made once on the driver, complete (schema and all), so that every task of
a query has the same columns; it is small, hashable, and travels with the tasks.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from ottla.spark.errors import BadOption
from ottla.spark.registry import RegistrySettings

FORMATS: Final = ("raw", "string", "json", "avro", "protobuf")


class FormatError(BadOption):
    """A schema or option that cannot be worked with: said before the query runs."""


class EncodeError(FormatError):
    """A row that does not fit the schema it should be written with."""


@dataclass(frozen=True)
class FormatSpec:
    """How the bytes of one column are to be understood."""

    format: str = "raw"
    schema: str | None = None
    """DDL, Spark's JSON, JSON Schema, or Avro: what the columns are made from."""
    descriptors: bytes | None = None
    """Of Protobuf: a FileDescriptorSet."""
    message_name: str | None = None
    registry: RegistrySettings | None = None
    """Where values are framed by a schema id, and what the ids stand for is found here."""
    subject: str | None = None
    schema_id: int | None = None
    """What written values are framed with."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise FormatError(f"{self.format!r} is no format; known: {', '.join(FORMATS)}")


RAW: Final = FormatSpec()
"""Bytes as they are."""


class Fault(NamedTuple):
    """Why a row is dead."""

    row: int
    kind: str
    reason: str


class DecodedColumn(NamedTuple):
    """As many values as there were; null where a fault is."""

    array: pa.Array
    faults: list[Fault]


class EncodedColumn(NamedTuple):
    """Binary, as many values as there were; null where a fault is."""

    array: pa.Array
    faults: list[Fault]


class Codec(Protocol):
    """One format with its schema."""

    type: pa.DataType

    def decode(self, values: pa.Array) -> DecodedColumn: ...

    def encode(self, column: pa.Array) -> pa.Array:
        """Binary; null stays null. Raises EncodeError."""
