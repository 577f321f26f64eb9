"""Seed after seed: a cluster under faults loses nothing, and comes to rest when they end.

`make test` runs two hundred seeds, `make test-all` ten thousand. A seed that fails is replayed by
``ottla sim --replay SEED``.
"""

import pytest

from ottla.simulation.run import run_seed

SEEDS = 200
CHUNK = 10
MANY_SEEDS = 10_000
MANY_CHUNKS = 50


def run_all(seeds: range) -> None:
    for seed in seeds:
        report = run_seed(seed)
        details = "\n".join(report.details)
        assert report.is_ok, f"seed {seed}: {report.scenario}: {report.failure}\n{details}"


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds(first: int) -> None:
    run_all(range(first, first + CHUNK))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(SEEDS, MANY_SEEDS, MANY_SEEDS // MANY_CHUNKS))
def test_many_seeds(first: int) -> None:
    run_all(range(first, first + MANY_SEEDS // MANY_CHUNKS))
