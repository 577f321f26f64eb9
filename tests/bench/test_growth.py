"""Benchmarks: what they may run, and that curves and tables say what was measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.curves import controller
from benchmarks.curves.curve import Curve, Measured
from benchmarks.measures import CLIENT_PER_REQUEST, REQUESTS
from benchmarks.report import Results, table

PROJECT = Path(__file__).parents[2]
CURVE = Curve("things", (10, 100, 1_000), lambda size: {"cost, ms": size / 4}, minutes=1)


@pytest.mark.parametrize(
    "script", ["run.py", "growth.py", "cluster.py", "storage.py", "security.py", "spark.py"]
)
def test_a_work_tree_is_refused(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROJECT / "benchmarks" / script), "--no-files"],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "this is a work tree" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("scale", "sizes"), [(1, [10, 100, 1_000]), (0.1, [10, 100]), (0.001, [10, 100])]
)
def test_a_curve_has_the_sizes_of_its_scale_and_two_at_least(
    scale: float, sizes: list[int]
) -> None:
    assert CURVE.sizes_at(scale) == sizes


def test_a_curve_is_a_table_with_a_column_for_each_size() -> None:
    measured = Measured(CURVE, {size: CURVE.measure(size) for size in CURVE.sizes})
    assert measured.table().splitlines() == [
        "things",
        "           10  100  1,000",
        "cost, ms  2.5   25    250",
    ]


def test_the_core_of_the_controller_is_measured_at_any_size() -> None:
    found = controller.measure(1_000)
    assert found["leaders elected then"] == 10
    assert found["partitions changed then"] >= 29
    assert all(value >= 0 for name, value in found.items() if "MB" not in name)


def test_rounds_are_shown_with_their_spread_and_the_client_is_not_judged() -> None:
    results = Results()
    for ours, theirs in ((300.0, 100.0), (200.0, 110.0), (250.0, 90.0)):
        results.add(
            "ottla", "row", {"requests": (ours, REQUESTS), "client": (8.0, CLIENT_PER_REQUEST)}
        )
        results.add(
            "kafka", "row", {"requests": (theirs, REQUESTS), "client": (4.0, CLIENT_PER_REQUEST)}
        )
    _, requests, client = table(results).splitlines()
    assert "100 (90-110)" in requests
    assert "250 (200-300)" in requests
    assert "1.82-3.33" in requests
    assert ">= 1.50" in requests
    assert "*" not in client
    assert "inf" not in client
