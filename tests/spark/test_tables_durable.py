"""What a commit names is on the disk before the commit is: without Spark, in every format."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.spark.synced_files import SyncedFiles
from tests.spark.table_formats import FORMATS, opened, spec_of

from ottla.spark.tables.commits import Change
from ottla.spark.tables.data_files import write_batches

SCHEMA = StructType([StructField("id", LongType())])
COMMITS = {
    "parquet": "_log/{:020d}.json",
    "delta": "_delta_log/{:020d}.json",
    "iceberg": "metadata/v{}.metadata.json",
}


@pytest.mark.parametrize("kind", FORMATS)
def test_all_that_a_commit_names_is_on_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    disk = SyncedFiles(monkeypatch)
    table = opened(spec_of(kind, tmp_path / "not" / "there"))
    place = tmp_path / "not" / "there" / "orders"
    table.create(SCHEMA)
    base = table.log.newest()
    assert base is not None
    made = {path for path in place.rglob("*") if path.is_file()}
    (added,) = write_batches([pa.RecordBatch.from_pydict({"id": [1]})], table.target(base))
    assert table.commit(base, Change("append", [added], (), {"w": 0}))
    version = 2 if kind == "iceberg" else base.version + 1
    committed = place / COMMITS[kind].format(version)
    commit = disk.first(committed)
    assert disk.first(place / added.path) < commit
    assert disk.first(place / "data") < commit
    assert disk.first(place) < commit
    assert disk.first(place.parent.parent) < commit
    assert disk.last(committed.parent) > commit
    manifests = [path for path in place.rglob("*.avro") if path not in made]
    assert len(manifests) == (2 if kind == "iceberg" else 0)
    assert all(disk.first(path) < commit for path in manifests)
