"""Streams over the commits of a table: each row once, over restarts, and never a wrong one."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.table_formats import MOSTLY_PARQUET, numbers, opened, spec_of

from ottla.spark.tables.spec import TableSpec


def streamed(spark: SparkSession, spec: TableSpec, checkpoint: Path) -> list[int]:
    """What a query gets that goes on at its checkpoint and ends."""
    got: list[int] = []

    def take(frame: DataFrame, _batch: int) -> None:
        got.extend(row["id"] for row in frame.collect())

    stream = opened(spec).read_stream(spark).writeStream.foreachBatch(take)
    stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    stream.start().awaitTermination()
    return sorted(got)


@pytest.mark.parametrize("kind", MOSTLY_PARQUET)
def test_a_stream_gets_each_appended_row_once_and_refuses_what_is_replaced(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    table = opened(spec)
    table.create(numbers(spark, 0, 0).schema)
    checkpoint = tmp_path / "checkpoint"
    for batch in range(3):
        table.append(numbers(spark, batch, batch + 1), writer="w", batch=batch)
    assert streamed(spark, spec, checkpoint) == [0, 1, 2]
    wider = numbers(spark, 3, 5).selectExpr("*", "1 as more")
    table.append(wider, writer="w", batch=3)
    assert streamed(spark, spec, checkpoint) == [3, 4]
    table.replace(wider.where("id = 4"), writer="w", batch=4)
    with pytest.raises(StreamingQueryException, match="rows were replaced that this stream"):
        streamed(spark, spec, checkpoint)
