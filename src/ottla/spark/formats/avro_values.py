"""Avro values to columns and back, by fastavro.

Values are bare (no container file), written with one schema and read with another where a registry
tells which was which. One byte more than the value is given to the reader, and it must stop before
it: so whatever is cut or too long shows, also where the reader itself would not notice.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from ottla.spark.formats.avro_types import KEPT, KEPT_ON_CHANGE, AvroSchema, final_type
from ottla.spark.formats.framing import BadFrame, frame, read_frame
from ottla.spark.formats.spec import DecodedColumn, EncodeError, Fault, FormatError, FormatSpec
from ottla.spark.registry import BadSchema, RegistryError, registry

Read = Callable[[BytesIO], Any]


class UnknownSchema(ValueError):
    """The schema that a value names cannot be had or used."""


class AvroCodec:
    """Values of one reader's schema."""

    def __init__(self, spec: FormatSpec) -> None:
        if spec.schema is None:
            raise FormatError("Avro needs a schema: valueSchema, valueSchemaFile or schemaRegistry")
        self._schema = AvroSchema([spec.schema])
        self.type = final_type(self._schema.raw_type)
        self._registry = None if spec.registry is None else registry(spec.registry)
        self._prefix = b"" if spec.schema_id is None else frame(spec.schema_id)
        self._readers: dict[int, Read] = {}
        self._same = self._reader_of(self._schema)

    def decode(self, values: pa.Array) -> DecodedColumn:
        rows: list[Any] = []
        faults: list[Fault] = []
        unknown: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            made = None
            if value is not None:
                try:
                    made = self._read(value, unknown)
                except (RegistryError, MemoryError):
                    raise
                except (BadFrame, UnknownSchema) as error:
                    faults.append(Fault(row, type(error).__name__, str(error)))
                except Exception as error:  # noqa: BLE001 (fastavro raises whatever comes up)
                    reason = f"{type(error).__name__}: {error}".rstrip(": ")
                    faults.append(Fault(row, "BadAvro", reason[:500]))
            rows.append(made)
        array = _array(rows, self._schema.raw_type, self.type, faults)
        return DecodedColumn(array, sorted(faults))

    def _read(self, value: bytes, unknown: dict[int, str]) -> Any:
        read, at = self._same, 0
        if self._registry is not None:
            schema_id, at = read_frame(value)
            if schema_id in unknown:
                raise UnknownSchema(unknown[schema_id])
            found = self._readers.get(schema_id)
            if found is None:
                try:
                    found = self._readers[schema_id] = self._reader(schema_id)
                except UnknownSchema as error:
                    unknown[schema_id] = str(error)
                    raise
            read = found
        stream = BytesIO(value + b"\0")
        stream.seek(at)
        made = read(stream)
        left = len(value) - stream.tell()
        if left < 0:
            raise ValueError("the value is cut")
        if left > 0:
            raise ValueError(f"{left} bytes are left behind the value")
        return made

    def _reader(self, schema_id: int) -> Read:
        assert self._registry is not None, "only framed values name a schema"
        try:
            found = self._registry.by_id(schema_id)
            if found.kind != "AVRO":
                raise UnknownSchema(f"schema {schema_id} is one of {found.kind}, not of AVRO")
            return self._reader_of(AvroSchema(each.text for each in found.in_order()))
        except (BadSchema, FormatError) as error:
            raise UnknownSchema(f"schema {schema_id}: {error}") from error

    def _reader_of(self, writer: AvroSchema) -> Read:
        mine, theirs = self._schema.stripped(KEPT), writer.stripped(KEPT)
        if self._schema.stripped(KEPT_ON_CHANGE) == writer.stripped(KEPT_ON_CHANGE):
            return lambda stream: fastavro.schemaless_reader(stream, theirs, None)
        mine, theirs = (each.stripped(KEPT_ON_CHANGE) for each in (self._schema, writer))
        return lambda stream: fastavro.schemaless_reader(stream, theirs, mine)

    def encode(self, column: pa.Array) -> pa.Array:
        schema, stream = self._schema.parsed, BytesIO()
        out: list[bytes | None] = []
        for number, row in enumerate(column.to_pylist(maps_as_pydicts="strict")):
            if row is None:
                out.append(None)
                continue
            stream.seek(0)
            stream.truncate()
            stream.write(self._prefix)
            try:
                fastavro.schemaless_writer(stream, schema, row, strict_allow_default=True)
            except Exception as error:
                text = f"row {number}: {type(error).__name__}: {error}"
                raise EncodeError(text[:500]) from error
            out.append(stream.getvalue())
        return pa.array(out, pa.binary())


def _array(rows: list[Any], raw: pa.DataType, final: pa.DataType, faults: list[Fault]) -> pa.Array:
    """All at once; where that fails, halves, down to the rows that fit no column."""

    def make(low: int, high: int) -> pa.Array:
        try:
            return pa.array(rows[low:high], raw).cast(final)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            if high - low == 1:
                faults.append(Fault(low, "BadAvro", str(error)[:500]))
                return pa.nulls(1, final)
        half = (low + high) // 2
        return pa.concat_arrays([make(low, half), make(half, high)])

    return make(0, len(rows))
