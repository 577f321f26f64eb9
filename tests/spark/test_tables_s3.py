"""Tables in a bucket of a real S3 server, which decides between writers by conditional puts."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.spark.table_formats import FORMATS, Rows, log_of, numbers, opened
from tests.tiered.s3_server import BUCKET, S3Server, s3_server

from ottla.spark.tables.commits import Change
from ottla.spark.tables.data_files import write_batches
from ottla.spark.tables.errors import CommitConflict
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table_stream import read_files

SCHEMA = StructType([StructField("id", LongType()), StructField("note", StringType())])


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def spec_at(server: S3Server, kind: str, name: str) -> TableSpec:
    options = {
        key.removeprefix("ottla.remote.store."): value for key, value in server.settings.items()
    }
    return TableSpec(name, kind, f"s3://{BUCKET}/{kind}/{name}", options=options)


@pytest.mark.parametrize("kind", FORMATS)
def test_commits_in_a_bucket_happen_or_do_not(server: S3Server, kind: str) -> None:
    spec = spec_at(server, kind, "plain")
    one, other = opened(spec), log_of(spec)
    one.create(SCHEMA)
    there, seen = one.log.newest(), other.newest()
    assert there is not None
    assert seen is not None
    target = one.target(there)
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "note": ["a", "b"]})
    added = tuple(write_batches([batch], target))
    assert one.commit(there, Change("append", added, (), {"w": 0}))
    with pytest.raises(CommitConflict):
        other.commit(seen, Change("append", added, (), {"v": 0}))
    newest = other.newest()
    assert newest is not None
    assert (newest.last_batch("w"), newest.last_batch("v")) == (0, None)
    read = pa.Table.from_batches(read_files(target.store, newest.files, target.schema))
    assert read.to_pydict() == {"id": [1, 2], "note": ["a", "b"]}
    assert not one.commit(there, Change("append", added, (), {"w": 0}))
    one.drop()
    assert log_of(spec).newest() is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_spark_writes_and_reads_tables_in_a_bucket(
    spark: SparkSession, server: S3Server, kind: str
) -> None:
    spec = spec_at(server, kind, "spark")

    def rows() -> Rows:
        return sorted(tuple(row) for row in opened(spec).read(spark).collect())

    opened(spec).append(numbers(spark, 0, 3, "old"), writer="w", batch=0)
    opened(spec).upsert(numbers(spark, 1, 4), ["id"], writer="w", batch=1)
    assert rows() == [(0, "old"), (1, "new"), (2, "new"), (3, "new")]
    assert opened(spec).replace(numbers(spark, 7, 9), writer="w", batch=2) == 2
    assert opened(spec).replace(numbers(spark, 7, 9), writer="w", batch=2) == 0
    assert rows() == [(7, "new"), (8, "new")]
