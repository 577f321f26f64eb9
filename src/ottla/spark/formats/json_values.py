"""JSON values to columns by Arrow's own reader, a whole table at a time, and back.

The values become lines (``json_kernels``) and the lines columns. Where the reader refuses, halves
are tried, down to the rows that it refuses alone: those are dead, with the reader's own reason.
Types that the reader does not know are read value by value (``json_rows``).
"""

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from ottla.spark.codec.kernels import Bytes, Ints
from ottla.spark.formats import json_kernels as k
from ottla.spark.formats.framing import BadFrame, frame, read_frame
from ottla.spark.formats.json_rows import RowReader
from ottla.spark.formats.json_schema import columns_of
from ottla.spark.formats.spec import DecodedColumn, EncodeError, Fault, FormatError, FormatSpec
from ottla.spark.registry import BadSchema, Registry, registry

BYTES_AT_ONCE: Final = 1 << 28


class JsonCodec:
    """Objects of JSON, with or without the registry's frame."""

    def __init__(self, spec: FormatSpec) -> None:
        if spec.schema is None:
            raise FormatError("JSON needs a schema: valueSchema, valueSchemaFile or schemaRegistry")
        self.type = columns_of(spec.schema)
        self._registry = None if spec.registry is None else registry(spec.registry)
        self._prefix = b"" if spec.schema_id is None else frame(spec.schema_id)
        self._rows = RowReader(self.type)
        # Dates are read as text and cast: the reader takes only numbers for them.
        self._read_as = _as_text(self.type) if _arrow_reads(self.type) else None
        self._parse = arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(self._read_as or self.type)),
            unexpected_field_behavior="ignore",
        )

    def decode(self, values: pa.Array) -> DecodedColumn:
        if values.nbytes > BYTES_AT_ONCE and len(values) > 1:
            half = len(values) // 2
            first, second = self.decode(values.slice(0, half)), self.decode(values.slice(half))
            moved = [each._replace(row=each.row + half) for each in second.faults]
            return DecodedColumn(
                pa.concat_arrays([first.array, second.array]), first.faults + moved
            )
        lines = _Lines(values, self._registry)
        faults = lines.faults
        if self._read_as is None:
            array, more = self._rows.read(lines.split())
            faults += more
        else:
            array = self._read(lines, 0, len(values), faults)
        return DecodedColumn(_masked(array, lines.states, faults), sorted(faults))

    def _read(self, lines: "_Lines", low: int, high: int, faults: list[Fault]) -> pa.Array:
        if low == high:
            return pa.nulls(0, self.type)
        try:
            return self._read_lines(lines.between(low, high), high - low)
        except pa.ArrowInvalid as error:
            if high - low == 1:
                reason = str(error).replace("JSON parse error: ", "").removesuffix(" in row 0")
                faults.append(Fault(low, "BadJson", reason))
                return pa.nulls(1, self.type)
        half = (low + high) // 2
        return pa.concat_arrays(
            [self._read(lines, low, half, faults), self._read(lines, half, high, faults)]
        )

    def _read_lines(self, lines: pa.Buffer, count: int) -> pa.Array:
        options = arrow_json.ReadOptions(use_threads=False, block_size=lines.size + 1)
        table = arrow_json.read_json(pa.BufferReader(lines), options, self._parse)
        assert table.num_rows == count, "a line is a row"
        batches = table.select([each.name for each in self.type]).to_batches()
        made = pa.concat_arrays([each.to_struct_array() for each in batches])
        return made.cast(self.type)

    def encode(self, column: pa.Array) -> pa.Array:
        prefix, bare = self._prefix, _barer(self.type)
        assert bare is not None, "columns are a struct"
        rows = []
        for number, row in enumerate(column.to_pylist(maps_as_pydicts="strict")):
            try:
                rows.append(None if row is None else prefix + _DUMP(bare(row)).encode())
            except (ValueError, TypeError) as error:
                raise EncodeError(f"row {number}: {error}") from error
        return pa.array(rows, pa.binary())


class _Lines:
    """A column of values as lines, and what is wrong with those that are none."""

    def __init__(self, values: pa.Array, known: Registry | None) -> None:
        count = len(values)
        self.faults: list[Fault] = []
        self.states: Bytes = np.zeros(count, np.uint8)
        _, offsets, content = values.buffers()
        places = np.frombuffer(offsets or b"\0" * 4, np.int32)[
            values.offset : values.offset + count + 1
        ]
        data = np.frombuffer(content or b"", np.uint8)
        if values.null_count:
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            self.states[nulls] = k.SKIPPED
        starts, ends = places[:-1], places[1:]
        if known is not None:
            starts = self._unframe(values, starts, known)
        room = int(ends[-1] - places[0]) if count else 0
        self._out: Bytes = np.empty(room + k.FILLER_SIZE * count, np.uint8)
        self._ends: Ints = np.empty(count + 1, np.int32)
        self._ends[0] = 0
        if k.lay_lines(data, starts, ends, self.states, self._out, self._ends[1:]):
            for row in np.flatnonzero((self.states != k.FINE) & (self.states != k.SKIPPED)):
                reason = k.REASONS[int(self.states[row])]
                self.faults.append(Fault(int(row), "BadJson", reason))
        self._check_text()

    def between(self, low: int, high: int) -> pa.Buffer:
        return pa.py_buffer(self._out[self._ends[low] : self._ends[high]])

    def split(self) -> list[bytes | None]:
        places, data = self._ends.tolist(), self._out.tobytes()
        fine = (self.states == k.FINE).tolist()
        return [
            data[places[row] : places[row + 1]] if fine[row] else None for row in range(len(fine))
        ]

    def _unframe(self, values: pa.Array, starts: Ints, known: Registry) -> Ints:
        """Where the JSON begins, behind a frame with an id that the registry knows."""
        moved = starts.copy()
        verdicts: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                schema_id, at = read_frame(value)
            except BadFrame as error:
                self._skip(row, "BadFrame", str(error))
                continue
            if schema_id not in verdicts:
                verdicts[schema_id] = _verdict(known, schema_id)
            if verdicts[schema_id]:
                self._skip(row, "UnknownSchema", verdicts[schema_id])
            moved[row] += at
        return moved

    def _skip(self, row: int, kind: str, reason: str) -> None:
        self.states[row] = k.SKIPPED
        self.faults.append(Fault(row, kind, reason))

    def _check_text(self) -> None:
        """Arrow's reader takes any bytes for text; Spark does not."""
        count = len(self.states)
        whole = pa.Array.from_buffers(
            pa.string(), count, [None, pa.py_buffer(self._ends), pa.py_buffer(self._out)]
        )
        try:
            whole.validate(full=True)
        except pa.ArrowInvalid:
            for row, line in enumerate(self.split()):
                try:
                    (line or b"").decode()
                except UnicodeDecodeError as error:
                    self._skip(row, "BadJson", f"no UTF-8: {error.reason} at {error.start}")
                    start, end = self._ends[row], self._ends[row + 1]
                    self._out[start : end - 1] = 0x20
                    self._out[start : start + 2] = (0x7B, 0x7D)


def _verdict(known: Registry, schema_id: int) -> str:
    try:
        kind = known.by_id(schema_id).kind
    except BadSchema as error:
        return str(error)
    return "" if kind == "JSON" else f"schema {schema_id} is one of {kind}, not of JSON"


def _masked(array: pa.Array, states: Bytes, faults: list[Fault]) -> pa.Array:
    mask = states != k.FINE
    mask[[each.row for each in faults]] = True
    if not mask.any():
        return array
    fields = list(array.type)
    # Arrays read in halves may hold nulls of their own; a row's null is one for all its fields.
    return pa.StructArray.from_arrays(array.flatten(), fields=fields, mask=pa.array(mask))


def _arrow_reads(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_arrow_reads(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _arrow_reads(kind.value_type)
    return not (pa.types.is_map(kind) or pa.types.is_binary(kind))


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _as_text(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _as_text(kind.value_type)))
    return pa.string() if pa.types.is_date(kind) else kind


def _barer(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Leaves out the fields that are null, as Spark's ``to_json`` does; None: there are none."""
    if pa.types.is_struct(kind):
        fields = {each.name: _barer(each.type) for each in kind}
        return lambda row: {
            name: value if (inner := fields[name]) is None else inner(value)
            for name, value in row.items()
            if value is not None
        }
    if pa.types.is_list(kind) and (of_element := _barer(kind.value_type)):
        return lambda values: [each if each is None else of_element(each) for each in values]
    if pa.types.is_map(kind) and (of_value := _barer(kind.item_type)):
        return lambda values: {
            name: each if each is None else of_value(each) for name, each in values.items()
        }
    return None


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_DUMP: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
).encode
