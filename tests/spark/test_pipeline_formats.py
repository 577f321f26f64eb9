"""Tables of each format in a pipeline: written, stopped, gone on with, and read by others."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipeline_files import WordCount, spec_of
from tests.spark.table_formats import FORMATS, elsewhere
from tests.spark.test_pipeline_run import Background, has_come
from tests.spark.topics import Topics
from tests.waiting import eventually

from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def check_elsewhere(words: WordCount) -> None:
    """What the library of the format finds is what was written."""
    rows = elsewhere(spec_of(words.pipeline, "words"))
    assert sorted(str(row[0]) for row in rows) == sorted(words.written.elements())
    assert dict(elsewhere(spec_of(words.pipeline, "counts"))) == words.written


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_pipeline_stops_and_goes_on_with_tables_of_each_format(
    topics: Topics, spark: "SparkSession", tmp_path: Path, table_format: str
) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=True, per_batch=2, table_format=table_format)
    words.write(["a", "b", "a", "c"])
    with Background(words.pipeline, spark) as background:
        eventually(lambda: has_come(words), seconds=200)
        words.write(["a", "d"])
        eventually(lambda: has_come(words), seconds=200)
    assert background.state is not None
    assert background.state.status == states.STOPPED
    check_elsewhere(words)
    words.write(["b", "e", "e"])
    again = run(words.pipeline, spark=spark, once=True)
    assert again.status == states.FINISHED, again
    assert again.flows["words"].rows == 3
    words.check()
    check_elsewhere(words)
    refreshed = run(words.pipeline, spark=spark, once=True, refresh=True)
    assert refreshed.status == states.FINISHED, refreshed
    words.check_tables()
    check_elsewhere(words)
    assert words.copied() == words.written + words.written
