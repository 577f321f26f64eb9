"""The columns ``key`` and ``value`` of a table, decoded and encoded by their formats.

A decoded column keeps its name and gets the type of its schema: a struct, whose fields a query
takes as ``value.*``. Null stays null: a tombstone is a row like others. A row with a fault in its
key or value leaves the table, as it was read, for the dead letters.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.spark.formats.fitting import check_fits, conform
from ottla.spark.formats.spec import (
    RAW,
    Codec,
    DecodedColumn,
    EncodedColumn,
    Fault,
    FormatError,
    FormatSpec,
)

REASON: Final = "errorReason"
ERROR_CLASS: Final = "errorClass"
_UNFIT: Final = (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError)
"""What Arrow and the writers of formats raise for a row that is not of its schema."""


class ValuesSpec(NamedTuple):
    """The formats of both columns."""

    key: FormatSpec = RAW
    value: FormatSpec = RAW

    def raw(self) -> bool:
        """Whether there is nothing to do."""
        return self.key.format == "raw" and self.value.format == "raw"


class DecodedValues(NamedTuple):
    good: pa.RecordBatch
    dead: pa.RecordBatch
    """As they were read, with ``errorReason`` and ``errorClass``."""


def decode_values(batch: pa.RecordBatch, spec: ValuesSpec) -> DecodedValues:
    """The rows whose key and value are what they should be, and the others."""
    faults: dict[int, Fault] = {}
    good = batch
    for name, of_column in (("key", spec.key), ("value", spec.value)):
        place = batch.schema.get_field_index(name)
        if of_column.format == "raw" or place < 0:
            continue
        array, found = codec_of(of_column).decode(batch.column(place))
        for fault in found:
            faults.setdefault(fault.row, fault._replace(reason=f"{name}: {fault.reason}"))
        good = good.set_column(place, pa.field(name, array.type), array)
    if not faults:
        return DecodedValues(good, _dead(batch, []))
    dead = sorted(faults.values())
    keep = np.ones(batch.num_rows, np.bool_)
    keep[[each.row for each in dead]] = False
    return DecodedValues(good.filter(pa.array(keep)), _dead(batch, dead))


def encode_column(array: pa.Array, spec: FormatSpec) -> EncodedColumn:
    """In its format's bytes: all rows at once; where that fails, halves, down to the bad ones."""
    if spec.format == "raw":
        return EncodedColumn(array, [])
    codec = codec_of(spec)
    faults: list[Fault] = []

    def make(low: int, high: int) -> pa.Array:
        try:
            return codec.encode(conform(array.slice(low, high - low), codec.type))
        except _UNFIT as error:
            if high - low <= 1:
                reason = str(error).removeprefix("row 0: ")
                faults.append(Fault(low, "BadRow", reason))
                return pa.nulls(high - low, pa.binary())
        half = (low + high) // 2
        return pa.concat_arrays([make(low, half), make(half, high)])

    return EncodedColumn(make(0, len(array)), faults)


def check_writable(kind: pa.DataType, spec: FormatSpec, column: str) -> None:
    """Raise EncodeError where a column of this type cannot be written in this format."""
    if spec.format != "raw":
        check_fits(kind, codec_of(spec).type, column)


def decoded_type(spec: FormatSpec) -> pa.DataType:
    """The type of a column in this format; raises FormatError where there is no such."""
    if spec.format == "raw":
        return pa.binary()
    if spec.format == "json" and spec.schema is not None:
        # Asked by processes that decode nothing: they do without the compiler of the codec's loops.
        from ottla.spark.formats.json_rows import RowReader
        from ottla.spark.formats.json_schema import columns_of

        kind = columns_of(spec.schema)
        RowReader(kind)
        return kind
    return codec_of(spec).type


@lru_cache(maxsize=64)
def codec_of(spec: FormatSpec) -> Codec:
    """Made once per process: schemas are parsed and registries asked only then."""
    if spec.format == "json":
        from ottla.spark.formats.json_values import JsonCodec

        return JsonCodec(spec)
    if spec.format == "avro":
        from ottla.spark.formats.avro_values import AvroCodec

        return AvroCodec(spec)
    if spec.format == "protobuf":
        from ottla.spark.formats.protobuf_values import ProtobufCodec

        return ProtobufCodec(spec)
    if spec.format == "string":
        return _StringCodec()
    raise FormatError(f"{spec.format} values are not decoded")


class _StringCodec:
    """Text in UTF-8."""

    type = pa.string()

    def decode(self, values: pa.Array) -> DecodedColumn:
        try:
            return DecodedColumn(values.cast(pa.string()), [])
        except pa.ArrowInvalid:
            faults: list[Fault] = []
            rows: list[str | None] = []
            for row, value in enumerate(values.to_pylist()):
                text = None
                try:
                    text = None if value is None else value.decode()
                except UnicodeDecodeError as error:
                    faults.append(Fault(row, "BadString", f"no UTF-8: {error.reason}"))
                rows.append(text)
            return DecodedColumn(pa.array(rows, pa.string()), faults)

    def encode(self, column: pa.Array) -> pa.Array:
        return column.cast(pa.binary())


def _dead(batch: pa.RecordBatch, faults: list[Fault]) -> pa.RecordBatch:
    rows = batch.take(pa.array([each.row for each in faults], pa.int64()))
    reasons = pa.array([each.reason for each in faults], pa.string())
    classes = pa.array([each.kind for each in faults], pa.string())
    return pa.RecordBatch.from_arrays(
        [*rows.columns, reasons, classes],
        schema=batch.schema.append(pa.field(REASON, pa.string())).append(
            pa.field(ERROR_CLASS, pa.string())
        ),
    )
