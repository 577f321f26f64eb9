"""What Spark calls: its names, its classes, its signatures; the work is done elsewhere.

Runs on PySpark 4.1 to 4.3. Before 4.2 there are no limits for a micro-batch: Spark asks for the
newest offsets without saying how much it wants, and ``availableNow`` is one batch.

There is no ``pushFilters``: up to Spark 4.3.0 what one query filters, others of the same DataFrame
do not see any more.

Spark imports this in a new process for each step of a query's planning, most of which ask for the
schema and no more. So what reads and writes, with the compiler of its loops, is imported where it
is used: that alone is half a second for each process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.codec.schema import Columns
from ottla.spark.errors import BadOption
from ottla.spark.format_options import FormatOptions
from ottla.spark.formats.values import decoded_type
from ottla.spark.kafka_settings import refuse_shown
from ottla.spark.source.offsets import OffsetsJson, from_json
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.spark_writer import OttlaStreamWriter, OttlaWriter
    from ottla.spark.source.stream_reader import TopicStream

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1, which never asks for a limit
    if not TYPE_CHECKING:

        class SupportsTriggerAvailableNow:
            pass

        class ReadLimit:
            pass

        ReadAllAvailable = ReadMaxBytes = ReadMaxRows = ReadMinRows = ReadLimit

NAME = "ottla"
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


class OttlaDataSource(DataSource):
    """``spark.read.format("ottla")``, ``readStream``, ``write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def __init__(self, options: dict[str, str]) -> None:
        refuse_shown(options)
        super().__init__(options)

    def schema(self) -> StructType:
        headers = self.options.get("includeHeaders", "false").strip().lower() == "true"
        names = [name for name in TYPES if headers or name != "headers"]
        types = types_of(FormatOptions.parse(dict(self.options)).reading())
        return StructType([StructField(name, types[name]) for name in names])

    def reader(self, schema: StructType) -> "OttlaReader":
        options = SourceOptions.parse(dict(self.options))
        options = replace(options, formats=options.formats.reading())
        return OttlaReader(options, columns_of(schema, types_of(options.formats)))

    def streamReader(self, schema: StructType) -> "OttlaStreamReader":
        options = SourceOptions.parse(dict(self.options), streaming=True)
        options = replace(options, formats=options.formats.reading())
        return OttlaStreamReader(options, columns_of(schema, types_of(options.formats)))

    def writer(self, schema: StructType, overwrite: bool) -> "OttlaWriter":
        from ottla.spark.sink.options import SinkOptions
        from ottla.spark.sink.spark_writer import OttlaWriter, fitted

        if overwrite:
            raise BadOption('a topic cannot be overwritten: use mode("append")')
        return OttlaWriter(fitted(SinkOptions.parse(dict(self.options)), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "OttlaStreamWriter":  # noqa: ARG002
        from ottla.spark.sink.options import SinkOptions
        from ottla.spark.sink.spark_writer import OttlaStreamWriter, fitted

        return OttlaStreamWriter(fitted(SinkOptions.parse(dict(self.options)), schema))


def types_of(formats: FormatOptions) -> dict[str, DataType]:
    """Of all columns, key and value as their formats have them."""
    made = dict(TYPES)
    for name, spec in (("key", formats.key), ("value", formats.value)):
        if spec.format != "raw":
            made[name] = from_arrow_type(decoded_type(spec))
    return made


def columns_of(schema: StructType, types: Mapping[str, DataType] = TYPES) -> Columns:
    """The columns that a query asks for, in its order; each as it is in a topic."""
    for field in schema.fields:
        wanted = types.get(field.name)
        if wanted is None:
            raise BadOption(f"there is no column {field.name}, only {', '.join(TYPES)}")
        if field.dataType.simpleString() != wanted.simpleString():
            raise BadOption(
                f"column {field.name} is {wanted.simpleString()}, not "
                f"{field.dataType.simpleString()}: leave its type and cast it in the query"
            )
    return Columns(schema.fieldNames())


class RangePartition(InputPartition):
    """A range, or the parts of one, as Spark sends it to a task."""

    def __init__(self, wanted: "OffsetRange | tuple[OffsetRange, ...]") -> None:
        super().__init__(wanted)


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        from ottla.spark.source.reader import plan_batch
        from ottla.spark.worker_heap import settled

        return [RangePartition(each) for each in settled(plan_batch(self._options))]

    def read(self, partition: InputPartition | None) -> Iterator["pa.RecordBatch"]:
        from ottla.spark.source.reader import read_range
        from ottla.spark.worker_heap import settled

        # A query over nothing still has one task: its partition holds None, or is it in Spark 4.1.
        if partition is None or partition.value is None:
            return iter(())
        return settled(read_range(partition.value, self._options, self._columns))


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver for the whole query; executors get a copy, which only reads."""

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._opened: TopicStream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _stream(self) -> "TopicStream":
        from ottla.spark.source.stream_reader import TopicStream

        if self._opened is None:
            self._opened = TopicStream(self._options)
        return self._opened

    def initialOffset(self) -> OffsetsJson:
        return self._stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits, so that Spark asks for a limited batch; all of them are kept."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(
        self, start: OffsetsJson | None = None, limit: ReadLimit | None = None
    ) -> OffsetsJson:
        limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        return self._stream.latest(start, limited=limited)

    def prepareForTriggerAvailableNow(self) -> None:
        self._stream.freeze()

    def reportLatestOffset(self) -> OffsetsJson | None:
        return self._stream.reported()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        tasks = self._stream.tasks(dict(start), dict(end))
        return [RangePartition(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from ottla.spark.source.reader import read_task
        from ottla.spark.worker_heap import settled

        return settled(read_task(partition.value, self._options, self._columns))

    def commit(self, end: OffsetsJson) -> None:
        self._stream.commit_offsets(from_json(end))

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
