"""Rows with keys and values in their formats, made from a table's columns; runs in tasks.

The value is the column ``value``; a table without one has the value that its columns make, but for
``key``, ``headers``, ``topic``, ``partition`` and ``timestamp``. A row that cannot be encoded
becomes a dead letter, which goes the way of all rows: with ``exactlyOnce`` it is written in the
transaction of its task, and once.
"""

import base64
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.spark.codec.rows import COLUMNS, Rows, UnwritableTable
from ottla.spark.codec.schema import HEADERS
from ottla.spark.dead_letters import (
    CLASS_HEADER,
    OMITTED_HEADER,
    REASON_CHARACTERS_MAX,
    REASON_HEADER,
    BadRecord,
    TooManyDeadLetters,
)
from ottla.spark.formats.arrow_types import struct_of
from ottla.spark.formats.spec import Fault
from ottla.spark.formats.values import ValuesSpec, encode_column
from ottla.spark.sink.options import SinkOptions

_log = logging.getLogger(__name__)

TOPIC_HEADER: Final = "ottla.sink.topic"
"""Where a dead letter was to go."""
_SHOWN_CHARACTERS_MAX: Final = 200


def gathered(table: pa.RecordBatch, spec: ValuesSpec) -> pa.RecordBatch:
    """With a column ``value``: its own, or the one that its columns make."""
    names = table.schema.names
    if spec.value.format == "raw" or "value" in names:
        return table
    mine = [place for place, name in enumerate(names) if name not in COLUMNS]
    if not mine:
        raise UnwritableTable(f"no column to make a value from; the table has {names}")
    arrays = [table.column(place) for place in mine]
    kind = struct_of((names[place], table.column(place).type) for place in mine)
    value = pa.StructArray.from_arrays(arrays, fields=list(kind))
    kept = [name for name in names if name in COLUMNS]
    return table.select(kept).append_column("value", value)


class Encoded(NamedTuple):
    """The rows that can be written, and the others as they were."""

    good: pa.RecordBatch
    dead: pa.RecordBatch
    faults: list[Fault]
    """Of the dead ones, in their order."""


def encoded(table: pa.RecordBatch, spec: ValuesSpec) -> Encoded:
    whole = gathered(table, spec)
    good = whole
    faults: dict[int, Fault] = {}
    for name, of_column in (("key", spec.key), ("value", spec.value)):
        place = whole.schema.get_field_index(name)
        if of_column.format == "raw" or place < 0:
            continue
        array, found = encode_column(whole.column(place), of_column)
        for fault in found:
            faults.setdefault(fault.row, fault._replace(reason=f"{name}: {fault.reason}"))
        good = good.set_column(place, pa.field(name, array.type), array)
    ordered = sorted(faults.values())
    keep = np.ones(whole.num_rows, np.bool_)
    keep[[each.row for each in ordered]] = False
    kept = good if not ordered else good.filter(pa.array(keep))
    return Encoded(kept, whole.filter(pa.array(~keep)), ordered)


def formatted_rows(options: SinkOptions, tables: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """What a task writes: the rows of each table, then its dead letters."""
    spec, letters = options.formats.values, _Letters(options)
    for table in tables:
        found = encoded(table, spec)
        yield Rows(found.good, options.topic)
        if found.faults:
            yield letters.rows(found)
    if letters.count:
        _log.warning("%s dead letters to %s", letters.count, options.formats.dead_letter_topic)


class _Letters:
    """The dead letters of one task; without a topic for them the first one fails the query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._size_max = options.batching.request_bytes_max // 2
        self.count = 0

    def rows(self, found: Encoded) -> Rows:
        rows = found.dead.to_pylist()
        topic, most = self._options.formats.dead_letter_topic, self._options.formats.dead_letter_max
        if topic is None:
            raise BadRecord(
                f"a row for {self._target(rows[0])} cannot be written: {found.faults[0].reason}; "
                f"{_shown(rows[0].get('value'))[:_SHOWN_CHARACTERS_MAX]}. To put such rows aside "
                "and go on, set the option deadLetterTopic"
            )
        self.count += len(rows)
        if most is not None and self.count > most:
            raise TooManyDeadLetters(
                f"{self.count} rows of one task that cannot be written are more than "
                f"deadLetterMax={most}; the last: {found.faults[-1].reason}"
            )
        letters = [self._letter(*each) for each in zip(rows, found.faults, strict=True)]
        columns = {
            "key": pa.array([each["key"] for each in letters], pa.binary()),
            "value": pa.array([each["value"] for each in letters], pa.binary()),
            "headers": pa.array([each["headers"] for each in letters], HEADERS),
        }
        if "timestamp" in found.dead.schema.names:
            columns["timestamp"] = found.dead.column("timestamp")
        return Rows(pa.RecordBatch.from_pydict(columns), topic)

    def _letter(self, row: dict[str, Any], fault: Fault) -> dict[str, Any]:
        value = _shown(row.get("value")).encode(errors="replace")
        headers = [
            (each["key"], each["value"]) for each in row.get("headers") or () if each is not None
        ]
        headers += [
            (REASON_HEADER, fault.reason[:REASON_CHARACTERS_MAX].encode(errors="replace")),
            (CLASS_HEADER, fault.kind.encode()),
            (TOPIC_HEADER, self._target(row).encode()),
        ]
        if len(value) > self._size_max:
            headers.append((OMITTED_HEADER, str(len(value)).encode()))
            value = b""
        return {
            "key": _key(row.get("key")),
            "value": value,
            "headers": [{"key": name, "value": _bytes(content)} for name, content in headers],
        }

    def _target(self, row: dict[str, Any]) -> str:
        return self._options.topic or str(row.get("topic"))


def _key(key: object) -> bytes | None:
    """Bytes and text as they are, others as JSON: a dead letter has no format."""
    return None if key is None else _bytes(key if isinstance(key, bytes | str) else _shown(key))


def _bytes(content: bytes | str | None) -> bytes | None:
    return content.encode(errors="replace") if isinstance(content, str) else content


def _shown(value: object) -> str:
    """JSON for people, of whatever it is."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
