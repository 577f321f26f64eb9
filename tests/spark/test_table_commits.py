"""Commits upon a version that is not the newest any more are repeated only where that is right."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.spark.table_formats import FORMATS, elsewhere, opened, spec_of
from tests.spark.test_table_log import LaterTime

from ottla.spark.tables.commits import Change, Snapshot
from ottla.spark.tables.data_files import write_batches
from ottla.spark.tables.errors import VersionGone
from ottla.spark.tables.logged_table import LoggedTable
from ottla.spark.tables.table import open_table
from ottla.spark.tables.table_stream import START, TableStream

SCHEMA = StructType([StructField("id", LongType())])


def commit(table: LoggedTable, base: Snapshot, writer: str, start: int, end: int) -> bool:
    """Rows from a start to an end, as an export does it: the end is the number of the batch."""
    rows = pa.RecordBatch.from_pydict({"id": list(range(start, end))})
    added = list(write_batches([rows], table.target(base)))
    return table.commit(base, Change("export", added, (), {writer: end}))


@pytest.mark.parametrize("kind", FORMATS)
def test_of_two_who_went_on_from_the_same_place_one_is_refused(tmp_path: Path, kind: str) -> None:
    spec = spec_of(kind, tmp_path)
    first, second, third = opened(spec), opened(spec), opened(spec)
    first.create(SCHEMA)
    bases = [table.log.newest() for table in (first, second, third)]
    assert bases[0] is not None
    assert bases[1] is not None
    assert bases[2] is not None
    assert commit(first, bases[0], "partition 0", 0, 3)
    assert not commit(second, bases[1], "partition 0", 0, 5)
    assert commit(third, bases[2], "partition 1", 10, 12)
    assert sorted(elsewhere(spec)) == [(0,), (1,), (2,), (10,), (11,)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_version_that_a_stream_stands_at_is_kept_and_earlier_ones_are_not(
    tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    table = open_table(spec, clock=LaterTime())
    table.create(SCHEMA)
    versions = []
    for number in range(4):
        base = table.log.newest()
        assert base is not None
        assert commit(table, base, "w", number, number + 1)
        versions.append(table.log.version())
    table.vacuum(timedelta(0), keep_from=versions[1])
    stream = TableStream(spec, LaterTime())
    assert len(stream.files(versions[1], versions[3])) == 2
    assert sorted(elsewhere(spec)) == [(0,), (1,), (2,), (3,)]
    if kind != "delta":  # which keeps its log for as long as its settings say
        with pytest.raises(VersionGone):
            stream.files(versions[0], versions[3])
    table.vacuum(timedelta(0))
    assert len(TableStream(spec, LaterTime()).files(START, versions[3])) == 4


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_another_process_made_anew_is_not_taken_for_the_old_one(
    tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    one, other = opened(spec), opened(spec)
    for start in (0, 10):
        one.create(SCHEMA)
        for number in range(3):
            base = one.log.newest()
            assert base is not None
            assert commit(one, base, "w", start + number, start + number + 1)
        newest, known = other.log.newest(), one.log.newest()
        assert newest is not None
        assert known is not None
        assert newest.files == known.files
        assert newest.last_batch("w") == start + 3
        if not start:
            one.drop()
    last = other.log.newest()
    assert last is not None
    assert commit(other, last, "v", 50, 51)
    assert sorted(elsewhere(spec)) == [(10,), (11,), (12,), (50,)]
