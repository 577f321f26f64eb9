"""The columns of tables: which types they may have, and how a table's columns may change.

A table gets new columns, null in the rows that it had before; nothing else changes. Whether a
column may be null is not kept: all may.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from ottla.spark.tables.errors import SchemaMismatch

SIMPLE: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)
_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampNTZType: pa.timestamp("us"),
    TimestampType: pa.timestamp("us", "UTC"),
}
PARTITIONING: Final = (BooleanType, ByteType, DateType, IntegerType, LongType, ShortType)
"""And text: values that every format writes alike."""


def table_columns(table: str, frame: StructType, partition_by: Sequence[str]) -> StructType:
    """The columns that a table needs for the rows of a DataFrame; SchemaMismatch if it cannot."""
    seen: dict[str, str] = {}
    for name in frame.fieldNames():
        if name.lower() in seen:
            other = seen[name.lower()]
            raise SchemaMismatch(
                f"table {table}: columns {other} and {name} have one name; rename one of them"
            )
        seen[name.lower()] = name
    fields = {
        field.name: StructField(field.name, _nullable(table, field.name, field.dataType))
        for field in frame.fields
    }
    for name in partition_by:
        if name not in fields:
            raise SchemaMismatch(
                f"table {table}: there is no column {name} to partition by, "
                f"only {', '.join(fields)}"
            )
        if not isinstance(fields[name].dataType, (*PARTITIONING, StringType)):
            raise SchemaMismatch(
                f"table {table}: column {name} is {fields[name].dataType.simpleString()}, by which "
                "it cannot be partitioned: take a column of text, whole numbers, booleans or dates"
            )
    return StructType(list(fields.values()))


def _nullable(table: str, column: str, wanted: DataType) -> DataType:
    """The same type without metadata, collations and words about nulls."""
    if isinstance(wanted, (StringType, CharType, VarcharType)):
        return StringType()
    if isinstance(wanted, SIMPLE):
        return wanted
    if isinstance(wanted, ArrayType):
        return ArrayType(_nullable(table, f"{column}.element", wanted.elementType))
    if isinstance(wanted, MapType):
        return MapType(
            _nullable(table, f"{column}.key", wanted.keyType),
            _nullable(table, f"{column}.value", wanted.valueType),
        )
    if isinstance(wanted, StructType):
        return StructType(
            [
                StructField(each.name, _nullable(table, f"{column}.{each.name}", each.dataType))
                for each in wanted.fields
            ]
        )
    raise SchemaMismatch(
        f"table {table}: column {column} is {wanted.simpleString()}, which tables do not have; "
        "cast it in the query"
    )


def evolved(table: str, there: StructType, wanted: StructType) -> StructType:
    """The table's columns and what the rows bring beside them."""
    by_lower = {field.name.lower(): field for field in there.fields}
    new = []
    for field in wanted.fields:
        known = by_lower.get(field.name.lower())
        if known is None:
            new.append(field)
        elif known.name != field.name:
            raise SchemaMismatch(
                f"table {table}: column {field.name} is {known.name} in the table; "
                f"call it so in the query"
            )
        elif known.dataType != field.dataType:
            raise SchemaMismatch(
                f"table {table}: column {field.name} is {known.dataType.simpleString()} in the "
                f"table and {field.dataType.simpleString()} in the rows; cast it in the query, "
                "or write to a new table"
            )
    given = set(wanted.fieldNames())
    for field in there.fields:
        if field.name not in given:
            raise SchemaMismatch(
                f"table {table}: the rows have no column {field.name}; select it (null as "
                f"{field.name}, cast to {field.dataType.simpleString()}, if there is none), or "
                "write to a new table"
            )
    return StructType([*there.fields, *new])


def arrow_columns(schema: StructType) -> pa.Schema:
    """As files have them: time in UTC."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def arrow_type(wanted: DataType) -> pa.DataType:
    """What Spark has for it, by other calls from version to version."""
    if isinstance(wanted, ArrayType):
        return pa.list_(pa.field("element", arrow_type(wanted.elementType)))
    if isinstance(wanted, MapType):
        return pa.map_(arrow_type(wanted.keyType), arrow_type(wanted.valueType))
    if isinstance(wanted, StructType):
        return pa.struct([_arrow_field(field) for field in wanted.fields])
    if isinstance(wanted, DecimalType):
        return pa.decimal128(wanted.precision, wanted.scale)
    return _ARROW[type(wanted)]


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.dataType))
