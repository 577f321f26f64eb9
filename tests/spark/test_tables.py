"""Tables: batches come in once, whatever crashes and whatever others write, in every format."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.table_formats import (
    FORMATS,
    MOSTLY_PARQUET,
    Crash,
    Rows,
    crash_at,
    elsewhere,
    numbers,
    opened,
    rows_of,
    spec_of,
)

from ottla.spark.tables.errors import BadTable, SchemaMismatch, TableNotFound
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table import Table

each_format = pytest.mark.parametrize("kind", FORMATS)
mostly_parquet = pytest.mark.parametrize("kind", MOSTLY_PARQUET)
STEPS = ("prepared", "written", "committed")

Write = Callable[[Table, DataFrame, int], int]
WRITES: dict[str, Write] = {
    "append": lambda table, rows, batch: table.append(rows, writer="w", batch=batch),
    "replace": lambda table, rows, batch: table.replace(rows, writer="w", batch=batch),
    "upsert": lambda table, rows, batch: table.upsert(rows, ["id"], writer="w", batch=batch),
}


def noted(*spans: tuple[int, int, str]) -> Rows:
    return sorted((i, note) for start, end, note in spans for i in range(start, end))


@each_format
def test_a_batch_is_appended_once_and_each_writer_has_its_own(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    assert not opened(spec).exists()
    assert not list(tmp_path.iterdir())
    with pytest.raises(TableNotFound, match=r"shop\.orders is not there yet"):
        opened(spec).read(spark)
    assert opened(spec).append(numbers(spark, 0, 3), writer="a", batch=0) == 3
    assert opened(spec).append(numbers(spark, 0, 3), writer="a", batch=0) == 0
    assert opened(spec).append(numbers(spark, 3, 5), writer="b", batch=0) == 2
    table = opened(spec)
    assert table.append(numbers(spark, 5, 6), writer="a", batch=4) == 1
    assert table.append(numbers(spark, 9, 10), writer="a", batch=3) == 0
    assert table.append(numbers(spark, 0, 0), writer="a", batch=5) == 0
    assert rows_of(spark, spec) == noted((0, 6, "new"))


@mostly_parquet
@pytest.mark.parametrize("operation", WRITES)
def test_a_write_that_crashed_anywhere_is_repeated_and_is_there_once(
    spark: SparkSession, tmp_path: Path, kind: str, operation: str
) -> None:
    write = WRITES[operation]
    expected = {
        "append": noted((0, 4, "old"), (2, 6, "new")),
        "replace": noted((2, 6, "new")),
        "upsert": noted((0, 2, "old"), (2, 6, "new")),
    }[operation]
    spec = spec_of(kind, tmp_path)
    for step in STEPS:
        with pytest.raises(Crash):
            write(opened(spec, crash_at(step)), numbers(spark, 0, 4, "old"), 0)
        assert not opened(spec).exists() or len(rows_of(spark, spec)) in {0, 4}
        if step == "prepared":
            continue  # the table is there, so that this step does not come again
    write(opened(spec), numbers(spark, 0, 4, "old"), 0)
    assert rows_of(spark, spec) == noted((0, 4, "old"))
    for step in STEPS[1:]:
        with pytest.raises(Crash):
            write(opened(spec, crash_at(step)), numbers(spark, 2, 6), 1)
        there = noted((0, 4, "old")) if step == "written" else expected
        assert rows_of(spark, spec) == there
    assert write(opened(spec), numbers(spark, 2, 6), 1) == 0
    assert rows_of(spark, spec) == expected


@mostly_parquet
def test_of_two_writers_at_once_both_succeed_and_a_twin_does_not(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    opened(spec).append(numbers(spark, 0, 3, "old"), writer="a", batch=0)

    def meanwhile(write: Callable[[], int]) -> Callable[[str], None]:
        left = [write]

        def at(step: str) -> None:
            if step == "written" and left:
                left.pop()()

        return at

    def other() -> int:
        return opened(spec).append(numbers(spark, 3, 5, "other"), writer="b", batch=0)

    table = opened(spec, meanwhile(other))
    assert table.append(numbers(spark, 5, 6), writer="a", batch=1) == 1
    assert rows_of(spark, spec) == noted((0, 3, "old"), (3, 5, "other"), (5, 6, "new"))

    def twin() -> int:
        return opened(spec).append(numbers(spark, 6, 7, "twin"), writer="a", batch=2)

    assert opened(spec, meanwhile(twin)).append(numbers(spark, 6, 7), writer="a", batch=2) == 0

    def same_key() -> int:
        return opened(spec).append(numbers(spark, 7, 8, "other"), writer="b", batch=1)

    table = opened(spec, meanwhile(same_key))
    assert table.upsert(numbers(spark, 6, 9), ["id"], writer="a", batch=3) == 3
    kept = ((0, 3, "old"), (3, 5, "other"), (5, 6, "new"), (6, 9, "new"))
    assert rows_of(spark, spec) == noted(*kept)

    def replaced() -> int:
        return opened(spec).append(numbers(spark, 20, 22), writer="b", batch=2)

    table = opened(spec, meanwhile(replaced))
    assert table.replace(numbers(spark, 1, 2), writer="a", batch=4) == 1
    assert rows_of(spark, spec) == noted((1, 2, "new"))


def orders(spark: SparkSession, text: str) -> DataFrame:
    """Written as ``region id at state, ...``, a dash for null."""
    values = [
        tuple(None if word == "-" else word for word in row.split()) for row in text.split(",")
    ]
    frame = spark.createDataFrame(values, "region string, id string, at string, state string")
    return frame.selectExpr("region", "int(id) id", "int(at) at", "state").coalesce(1)


@mostly_parquet
def test_an_upsert_keeps_the_newest_row_of_each_key(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path, "region")
    table = opened(spec)

    def states() -> dict[object, object]:
        return {row["id"]: row["state"] for row in table.read(spark).collect()}

    made = orders(spark, "eu 1 1 made,eu 1 2 paid,us 2 1 made,us - 1 none")
    assert table.upsert(made, ["id"], writer="w", batch=0) == 4
    assert states() == {1: "paid", 2: "made", None: "none"}
    moved = orders(spark, "us 1 3 sent,eu - 2 some")
    table.upsert(moved, ["id"], writer="w", batch=1)
    assert states() == {1: "sent", 2: "made", None: "some"}
    late = orders(spark, "eu 1 2 late,us 2 9 sent,us 2 8 late")
    table.upsert(late, ["id"], writer="w", batch=2, order_by=["at"])
    assert states() == {1: "sent", 2: "sent", None: "some"}
    gone = orders(spark, "eu 1 5 gone,us 2 5 gone")
    table.upsert(gone, ["id"], writer="w", batch=3, order_by=["at"], deletes="state = 'gone'")
    assert states() == {2: "sent", None: "some"}
    with pytest.raises(SchemaMismatch, match="no column order in the rows to upsert"):
        table.upsert(gone, ["order"], writer="w", batch=4)


@each_format
def test_a_table_gets_new_columns_and_no_other_change(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    table = opened(spec)
    table.append(numbers(spark, 0, 1), writer="w", batch=0)
    wider = numbers(spark, 1, 2).selectExpr("struct(id, array(id) as ids) as more", "note", "id")
    table.append(wider, writer="w", batch=1)
    assert rows_of(spark, spec) == [(0, "new", None), (1, "new", {"id": 1, "ids": [1]})]
    for rows, complaint in {
        "id": "shop.orders: the rows have no column note; select it",
        "int(id) id, note, more": "column id is bigint in the table and int in the rows; cast it",
        "id as ID, note, more": "column ID is id in the table",
        "id, note, more, null as x": "column x is void, which tables do not have; cast it",
        "id, id as Id": "columns id and Id have one name",
        "id, note, struct(id) more": "column more is struct<id:bigint,ids:array<bigint>> in",
    }.items():
        frame = wider.selectExpr(*re.split(r", (?![^(]*\))", rows))
        with pytest.raises(SchemaMismatch, match=re.escape(complaint)):
            table.append(frame, writer="w", batch=2)
    assert len(rows_of(spark, spec)) == 2


def test_what_a_table_may_not_be_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="format is 'orc', expected parquet, delta, iceberg"):
        TableSpec("t", "orc", "/tmp/t")
    with pytest.raises(BadTable, match="option endpiont is unknown; did you mean endpoint"):
        TableSpec("t", "parquet", "s3://b/t", options={"endpiont": "x"})
    with pytest.raises(BadTable, match="expected a directory or one of file://, s3://"):
        opened(TableSpec("t", "parquet", "ftp://b/t"))
    table = opened(spec_of("parquet", tmp_path, "day"))
    with pytest.raises(SchemaMismatch, match="no column day to partition by, only id, note"):
        table.append(numbers(spark, 0, 1), writer="w", batch=0)
    timed = spark.range(1).selectExpr("id", "timestamp_seconds(id) as day")
    with pytest.raises(SchemaMismatch, match="column day is timestamp, by which it cannot"):
        table.append(timed, writer="w", batch=0)
    opened(spec_of("parquet", tmp_path)).append(numbers(spark, 0, 1), writer="w", batch=0)
    dated = numbers(spark, 0, 1).selectExpr("id", "note", "date'2026-01-31' as day")
    with pytest.raises(BadTable, match="is partitioned by nothing, not by day: that is for ever"):
        table.append(dated, writer="w", batch=1)


@each_format
def test_vacuum_takes_what_nobody_needs_and_nothing_else(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spec = spec_of(kind, tmp_path)
    table = opened(spec)
    table.append(numbers(spark, 0, 2, "old"), writer="w", batch=0)
    with pytest.raises(Crash):
        opened(spec, crash_at("written")).append(numbers(spark, 0, 1), writer="w", batch=1)
    old = table.read(spark)
    table.replace(numbers(spark, 2, 4), writer="w", batch=1)
    assert len(old.collect()) == 2
    assert table.vacuum() == []
    removed = table.vacuum(timedelta(0))
    assert len(removed) == 2
    left = {path.name for path in (tmp_path / "orders" / "data").iterdir()}
    assert not left & {Path(path).name for path in removed}
    assert rows_of(spark, spec) == noted((2, 4, "new"))
    assert opened(spec).append(numbers(spark, 2, 4), writer="w", batch=1) == 0
    table.drop()
    assert not opened(spec).exists()


@each_format
def test_every_type_comes_back_as_it_went_in(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Here and elsewhere, whatever time zone the session has."""
    spec = spec_of(kind, tmp_path, "day", "small")
    frame = spark.range(1).selectExpr(
        "id",
        "date'2026-01-31' as day",
        "int(7) as small",
        "timestamp'2026-01-31 12:00:00.123456 UTC' as at",
        "timestamp_ntz'2026-01-31 12:00:00.5' as local",
        "cast(1.5 as decimal(10, 2)) as price",
        "binary('x') as raw",
        "double(id) as ratio",
        "float(0.5) as part",
        "id = 0 as first",
        "map('k', array(struct(id, 'z' as z))) as nested",
        "string(null) as `with.dot`",
    )
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        opened(spec).append(frame, writer="w", batch=0)
        (row,) = opened(spec).read(spark).collect()
        assert row.asDict(recursive=True) == frame.first().asDict(recursive=True)  # type: ignore[union-attr]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    ((*there,),) = elsewhere(spec)
    assert there[3] == datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    assert there[4] == datetime(2026, 1, 31, 12, 0, 0, 500_000)  # noqa: DTZ001
    assert there[:3] == [0, date(2026, 1, 31), 7]
    assert there[5:10] == [Decimal("1.50"), b"x", 0.0, 0.5, True]
    assert dict(there[10]) == {"k": [{"id": 0, "z": "z"}]}
