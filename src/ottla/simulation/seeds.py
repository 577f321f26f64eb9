"""Many seeds, on all processors: reports in their order, until one of them tells of a failure."""

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NoReturn

from ottla.requests.table import load, served
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
    load_all()
    left = iter(seeds)
    work = partial(run_seed, name=name, seconds=seconds, is_last=True)
    running: deque[_Child] = deque()
    try:
        while True:
            for seed in islice(left, (jobs or os.cpu_count() or 1) - len(running)):
                running.append(_Child(partial(work, seed)))
            if not running:
                return
            report = running.popleft().result()
            yield report
            if not report.is_ok and not goes_on:
                return
    finally:
        for child in running:
            child.end()


def load_all() -> None:
    """Import what a node imports at first use: a tenth of what a run would cost otherwise."""
    for of_controller in (False, True):
        for key in served(of_controller=of_controller):
            load(key, of_controller=of_controller)


class _Child:
    """A process for one run: with its end all goes that the run has made, which is much.

    It is forked, so that nothing is imported again.
    """

    def __init__(self, work: Callable[[], Report]) -> None:
        reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _report(work, writing)
        os.close(writing)
        self._file = os.fdopen(reading, "rb")

    def result(self) -> Report:
        with self._file:
            data = self._file.read()
        os.waitpid(self._pid, 0)
        if not data:
            raise ChildProcessError("a run has ended without a report")
        report: Report = pickle.loads(data)  # noqa: S301 - of our own child
        return report

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._file.close()
        os.waitpid(self._pid, 0)


def _report(work: Callable[[], Report], writing: int) -> NoReturn:
    try:
        data = pickle.dumps(work())
        with os.fdopen(writing, "wb") as file:
            file.write(data)
    finally:
        os._exit(0)
