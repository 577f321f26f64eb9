"""Columns of Iceberg as Spark and as Arrow have them; in files each has its field id."""

from datetime import date
from typing import Final

import pyarrow as pa
from pyiceberg import types as ice
from pyiceberg.schema import Schema
from pyspark.sql import types as spark

from ottla.spark.tables.columns import arrow_type
from ottla.spark.tables.errors import BadTable

FIELD_ID: Final = b"PARQUET:field_id"
_SIMPLE: Final[dict[type[ice.IcebergType], spark.DataType]] = {
    ice.BinaryType: spark.BinaryType(),
    ice.BooleanType: spark.BooleanType(),
    ice.DateType: spark.DateType(),
    ice.DoubleType: spark.DoubleType(),
    ice.FloatType: spark.FloatType(),
    ice.IntegerType: spark.IntegerType(),
    ice.LongType: spark.LongType(),
    ice.StringType: spark.StringType(),
    ice.TimestampType: spark.TimestampNTZType(),
    ice.TimestamptzType: spark.TimestampType(),
}


def spark_columns(schema: Schema) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(each.name, spark_type(each.field_type)) for each in schema.fields]
    )


def spark_type(there: ice.IcebergType) -> spark.DataType:
    if isinstance(there, ice.StructType):
        return spark.StructType(
            [spark.StructField(each.name, spark_type(each.field_type)) for each in there.fields]
        )
    if isinstance(there, ice.ListType):
        return spark.ArrayType(spark_type(there.element_type))
    if isinstance(there, ice.MapType):
        return spark.MapType(spark_type(there.key_type), spark_type(there.value_type))
    if isinstance(there, ice.DecimalType):
        return spark.DecimalType(there.precision, there.scale)
    found = _SIMPLE.get(type(there))
    if found is None:
        raise BadTable(f"a column of Iceberg's type {there} cannot be read here: use Iceberg's own")
    return found


def as_iceberg(there: spark.DataType) -> spark.DataType:
    """The same without the small whole numbers, which Iceberg has not."""
    if isinstance(there, (spark.ByteType, spark.ShortType)):
        return spark.IntegerType()
    if isinstance(there, spark.ArrayType):
        return spark.ArrayType(as_iceberg(there.elementType))
    if isinstance(there, spark.MapType):
        return spark.MapType(as_iceberg(there.keyType), as_iceberg(there.valueType))
    if isinstance(there, spark.StructType):
        return iceberg_columns(there)
    return there


def iceberg_columns(schema: spark.StructType) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(each.name, as_iceberg(each.dataType)) for each in schema.fields]
    )


def file_columns(schema: Schema) -> pa.Schema:
    return pa.schema([_field(each) for each in schema.fields])


def _field(there: ice.NestedField) -> pa.Field:
    return _numbered(there.name, there.field_type, there.field_id)


def _numbered(name: str, there: ice.IcebergType, number: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, _arrow(there), nullable, {FIELD_ID: str(number)})


def _arrow(there: ice.IcebergType) -> pa.DataType:
    if isinstance(there, ice.StructType):
        return pa.struct([_field(each) for each in there.fields])
    if isinstance(there, ice.ListType):
        return pa.list_(_numbered("element", there.element_type, there.element_id))
    if isinstance(there, ice.MapType):
        return pa.map_(
            _numbered("key", there.key_type, there.key_id, nullable=False),
            _numbered("value", there.value_type, there.value_id),
        )
    return arrow_type(spark_type(there))


def partition_value(there: ice.IcebergType, text: str | None) -> int | str | bool | None:
    """As Iceberg keeps it: days since 1970 for a date."""
    if text is None or isinstance(there, ice.StringType):
        return text
    if isinstance(there, ice.BooleanType):
        return text == "true"
    if isinstance(there, ice.DateType):
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    return int(text)
