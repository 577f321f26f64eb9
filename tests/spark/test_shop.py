"""The pipeline of the demo gives what a plain computation over the same events gives."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.shop_results import Expected, open_shop
from tests.waiting import eventually

from ottla.spark.pipelines import template
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.runner import run
from ottla.testing.broker import Broker

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.state import RunState


class Background:
    """The pipeline of a directory, run in a thread until it is stopped."""

    def __init__(self, directory: Path, spark: "SparkSession") -> None:
        self.error: BaseException | None = None
        self._rows: dict[str, int] = {}
        self._stop = threading.Event()
        self._directory = directory
        self._spark = spark
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            run(load(self._directory), spark=self._spark, stop=self._stop, show=self._show)
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def _show(self, state: "RunState") -> None:
        self._rows = {flow.name: flow.rows for flow in state.flows.values()}

    def has(self, **rows: int) -> bool:
        """Whether these flows have written so many rows."""
        assert self.error is None, self.error
        return rows.items() <= self._rows.items()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(120)
        assert self.error is None, self.error


def test_the_shop_runs_until_all_is_where_it_belongs(spark: "SparkSession", tmp_path: Path) -> None:
    with Broker() as broker:
        expected = Expected(open_shop(broker.bootstrap_servers))
        template.write(tmp_path, "shop", broker.bootstrap_servers)
        background = Background(tmp_path, spark)
        orders = len(expected.enriched)
        try:
            eventually(
                lambda: background.has(
                    orders_enriched=orders,
                    send_enriched=orders,
                    revenue=len(expected.revenue),
                    popular_products=len(expected.views),
                    order_states=expected.changes,
                ),
                seconds=270,
            )
        finally:
            background.stop()
        expected.check(tmp_path, broker.bootstrap_servers)
