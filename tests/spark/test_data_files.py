"""Data files, without Spark: all rows are in them, and a task holds few of them in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.spark.tables import data_files
from ottla.spark.tables.data_files import OPEN_MAX, Target, write_batches
from ottla.spark.tables.store import Store

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("part", pa.int32())])
ROWS = 1 << 14
COUNT = 160


def target_at(directory: Path, *partition_by: str) -> Target:
    return Target(Store(str(directory), {}), SCHEMA, partition_by)


def rows_at(directory: Path) -> list[int]:
    tables = [pq.read_table(path) for path in sorted((directory / "data").iterdir())]
    return sorted(pa.concat_tables(tables).column("id").to_pylist())


def batches(count: int, parts: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        columns = [pa.array(ids), pa.array((ids % parts).astype(np.int32))]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_a_task_holds_no_more_rows_than_it_may_however_many_partitions_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 << 20
    monkeypatch.setattr(data_files, "HELD_MAX", most)
    before = pa.total_allocated_bytes()
    peak = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for batch in batches(COUNT, OPEN_MAX):
            peak = max(peak, pa.total_allocated_bytes() - before)
            yield batch

    files = list(write_batches(watched(), target_at(tmp_path, "part")))
    assert len(files) == OPEN_MAX
    assert peak < 4 * most, "open files need some, and all rows are 30 MiB"
    assert rows_at(tmp_path) == list(range(COUNT * ROWS))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_file_may_end_with_a_full_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    size = next(batches(1, 1)).nbytes
    monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", size)
    (file,) = write_batches(batches(count, 1), target_at(tmp_path))
    assert file.rows == count * ROWS
    assert file.metadata().num_row_groups == count
    assert rows_at(tmp_path) == list(range(count * ROWS))
