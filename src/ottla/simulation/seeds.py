"""Many seeds, on all processors: reports in their order, until one of them tells of a failure."""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from ottla.simulation.run import Report, run_seed
from ottla.simulation.scenario import SWARM

SEEDS_MAX: Final = 10_000_000


def parse_seeds(text: str) -> range:
    """``7`` or ``1-200``; ValueError when it is neither."""
    first, dash, last = text.partition("-")
    seeds = range(int(first), int(last if dash else first) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise ValueError("not a range of seeds")
    return seeds


def run_seeds(
    seeds: Iterable[int],
    *,
    name: str = SWARM,
    seconds: float | None = None,
    jobs: int | None = None,
    goes_on: bool = False,
) -> Iterator[Report]:
    """Run each seed, in ``jobs`` processes; end with the first failure unless it goes on.

    What is reported does not depend on how many processes there are.
    """
    work = partial(run_seed, name=name, seconds=seconds)
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1:
        for seed in seeds:
            report = work(seed)
            yield report
            if not report.is_ok and not goes_on:
                return
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for report in pool.imap(work, seeds):
            yield report
            if not report.is_ok and not goes_on:
                return
