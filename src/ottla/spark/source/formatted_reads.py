"""Tables with keys and values in their formats, made from tables of bytes; runs in executors."""

from collections.abc import Iterator

import pyarrow as pa

from ottla.spark.codec.schema import TYPES, Columns
from ottla.spark.dead_letters import NEEDED, DeadLetters
from ottla.spark.formats.values import ValuesSpec, decode_values, decoded_type


def columns_to_read(columns: Columns) -> Columns:
    """What a dead letter needs, besides what is asked for."""
    return Columns([name for name in TYPES if name in columns.names or name in NEEDED])


def formatted_schema(columns: Columns, spec: ValuesSpec) -> pa.Schema:
    """Of the tables that :func:`formatted` gives."""
    decoded = {"key": spec.key, "value": spec.value}
    return pa.schema(
        [
            pa.field(each.name, decoded_type(decoded[each.name])) if each.name in decoded else each
            for each in columns.schema
        ]
    )


def formatted(
    tables: Iterator[pa.RecordBatch], spec: ValuesSpec, columns: Columns, dead: DeadLetters
) -> Iterator[pa.RecordBatch]:
    """The good rows of each table, once its dead ones are written."""
    with dead:
        for table in tables:
            decoded = decode_values(table, spec)
            dead.write(decoded.dead)
            if decoded.good.num_rows:
                yield decoded.good.select(list(columns.names))
