"""Pipelines in a real session: from topic to table to view to topic, stopped and gone on."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from tests.spark.pipeline_files import WordCount
from tests.spark.synced_files import SyncedFiles
from tests.spark.topics import Topics
from tests.waiting import eventually

from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.model import Pipeline
from ottla.spark.pipelines.runner import run
from ottla.spark.pipelines.state import RunState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_AND_LOG = ("checkpoints/words", "tables/words/_log")


class Background:
    """A pipeline that runs until it is stopped."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession") -> None:
        self.state: RunState | None = None
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._pipeline = pipeline
        self._spark = spark
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.state = run(self._pipeline, spark=self._spark, stop=self._stop)
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(240)
        assert self.error is None, self.error
        assert not self._thread.is_alive()


def has_come(words: WordCount) -> bool:
    """Whether the copies and the changes of all words are there."""
    try:
        words.check()
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("in_sql", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_pipeline_goes_on_where_it_stopped(
    topics: Topics,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_sql: bool,
) -> None:
    synced = SyncedFiles(monkeypatch)
    words = WordCount(topics, tmp_path / "p", in_sql=in_sql, per_batch=100)
    words.write(["a", "b", "a"])
    first = run(words.pipeline, spark=spark, once=True)
    assert first.status == states.FINISHED, first
    words.check()
    checkpoint, log = (words.directory / "storage" / each for each in CHECKPOINT_AND_LOG)
    first_rows = synced.first(log / f"{1:020d}.json")
    assert synced.first(checkpoint / "metadata") < first_rows
    assert synced.first(checkpoint / "offsets" / "0") < first_rows
    words.write(["a", "c"])
    second = run(words.pipeline, spark=spark, once=True)
    assert second.status == states.FINISHED, second
    assert second.flows["words"].rows == 2
    words.check()


def test_a_pipeline_runs_until_it_is_asked_to_stop(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=False, per_batch=100)
    place = words.pipeline.state_directory
    with Background(words.pipeline, spark) as background:
        words.write(["a", "b"])
        eventually(lambda: has_come(words), seconds=200)
        words.write(["a", "c"])
        eventually(lambda: has_come(words), seconds=200)
        state = states.read(place)
        assert state is not None
        assert state.status == states.RUNNING
        assert {flow.status for flow in state.flows.values()} == {states.RUNNING}
        assert state.flows["words"].rows == 4
        assert state.flows["words"].lag == 0
        states.ask_to_stop(place, state)
        assert states.wait_until_ended(place, 200, threading.Event().wait)
    assert background.state is not None
    assert background.state.status == states.STOPPED
    assert {flow.status for flow in background.state.flows.values()} == {states.STOPPED}
    words.check()
