"""Tables in places whose names mean something to somebody: globs, escapes, addresses."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.table_formats import FORMATS, MOSTLY_PARQUET, elsewhere, numbers, opened, rows_of

from ottla.spark.tables.errors import BadTable
from ottla.spark.tables.spec import TableSpec

NAMES = ("a b", "a[b]c", "a{b,c}d", "50%20off", "5%", "a#b", "a?b=c", "a*b", "ä", "a+b&c")
MISTAKEN = {"delta": ("50%20off",), "iceberg": ("a#b", "a?b=c")}


@pytest.mark.parametrize("kind", MOSTLY_PARQUET)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_can_be_read(
    spark: SparkSession, tmp_path: Path, kind: str, name: str
) -> None:
    spec = TableSpec("shop.orders", kind, str(tmp_path / name / "orders"))
    if name in MISTAKEN.get(kind, ()):
        with pytest.raises(BadTable, match="choose another place"):
            opened(spec)
        return
    assert opened(spec).append(numbers(spark, 0, 3), writer="w", batch=0) == 3
    assert opened(spec).upsert(numbers(spark, 2, 4), ["id"], writer="w", batch=1) == 2
    assert [row[0] for row in rows_of(spark, spec)] == [0, 1, 2, 3]
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_place_with_a_backslash_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(BadTable, match="choose another place"):
        opened(TableSpec("shop.orders", kind, str(tmp_path / "a\\b")))


@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_text_to_partition_by_is_the_same_to_all_readers(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Delta has no empty text there, and makes it null, as Delta's own writers do."""
    spec = TableSpec("shop.orders", kind, str(tmp_path / "orders"), ("country",))
    rows = [(1, "de"), (2, ""), (3, None)]
    frame = spark.createDataFrame(rows, "id int, country string")
    assert opened(spec).upsert(frame, ["id", "country"], writer="w", batch=0) == 3
    assert opened(spec).upsert(frame, ["id", "country"], writer="w", batch=1) == 3
    read = sorted(map(tuple, opened(spec).read(spark).collect()))
    assert read == [(1, "de"), (2, None if kind == "delta" else ""), (3, None)]
    assert sorted(elsewhere(spec)) == read
