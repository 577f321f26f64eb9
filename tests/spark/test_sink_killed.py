"""Driver and workers are killed at any moment; readers of committed records see each row once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.spark.committed import committed_values
from tests.spark.topics import Topics, numbered

from ottla.client.system_time import SystemTime
from ottla.common.chance import Chance

DRIVER_KILLS = int(os.environ.get("OTTLA_SINK_KILLS", "30"))
WORKER_KILLS = int(os.environ.get("OTTLA_SINK_WORKER_KILLS", "20"))
SEED = int(os.environ.get("OTTLA_SINK_SEED", "0")) or Chance().below(1 << 32)
ROWS = 200
"""Written before each run: two micro-batches."""
SECONDS = 8.0
"""What a micro-batch may take, as long as none was seen."""
STARVED = "Timed out while waiting for the Python worker to connect back"
"""Spark waits ten seconds for the process that plans a stream, and no setting changes that: on a
machine that is very busy a query ends so, and is started again."""
STARVED_MAX = 20
PROGRAM = Path(__file__).with_name("killed_query.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


class Run:
    """The query in a process of its own, from its checkpoint on."""

    def __init__(self, topics: Topics, source: str, target: str, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._log = checkpoint.with_suffix(".log")
        with self._log.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), topics.address, source, target, str(checkpoint)],
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n", self.said

    @property
    def said(self) -> str:
        return self._log.read_text()[-20_000:]

    def wait(self, seconds: float) -> bool:
        """Whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def live(self, batches: int, pace: float, chance: Chance) -> float:
        """Commit ``batches`` and a part of another; answer how long one takes."""
        self.wait_for_a_micro_batch()
        clock = SystemTime()
        begin, done = clock.monotonic(), self._logged("commits")
        while self._logged("commits") < done + batches:
            if self.wait(0.02):
                return pace
        if batches:
            pace = (clock.monotonic() - begin) / batches
        self.wait(chance.between(0, 1.5 * pace))
        return pace

    def wait_for_a_micro_batch(self) -> None:
        """Until one has begun that was not there before, or one is run again."""
        seen, done = self._logged("offsets"), self._logged("commits")
        while seen == done == self._logged("offsets"):
            if self.wait(0.05):
                return

    def _logged(self, name: str) -> int:
        return len(list(self._checkpoint.glob(f"{name}/[0-9]*")))

    def kill(self) -> None:
        """The driver, with all that belongs to it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill_a_worker(self, chance: Chance) -> bool:
        """One of the processes that run tasks, or plan, or make such processes."""
        with suppress(psutil.NoSuchProcess):
            everyone = psutil.Process(self.process.pid).children(recursive=True)
            workers = [each for each in everyone if _is_worker(each)]
            if workers:
                chance.choose(workers).kill()
                return True
        return False

    def finish(self) -> int:
        """Whatever became of it, nothing of it is left."""
        try:
            return self.process.wait(1200)
        finally:
            self.kill()
            self.process.communicate()


def _is_worker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # also of one that has ended and still has an entry
        return "pyspark.daemon" in process.cmdline()
    return False


def check(topics: Topics, target: str, rows: int, killed: object) -> None:
    found = Counter(committed_values(topics.address, target))
    wanted = Counter(b"%d" % i for i in range(rows))
    assert found == wanted, f"OTTLA_SINK_SEED={SEED} repeats it; killed: {killed}"


def test_each_row_is_there_once_however_often_the_driver_is_killed(
    topics: Topics, tmp_path: Path
) -> None:
    chance = Chance(SEED)
    source, target = topics.make(2), topics.make(2)
    killed, pace = 0, SECONDS
    for number in range(DRIVER_KILLS):
        topics.fill(source, numbered(number * ROWS, (number + 1) * ROWS, 2))
        run = Run(topics, source, target, tmp_path / "checkpoint")
        pace = run.live(chance.below(3), pace, chance)
        run.kill()
        ended = run.finish()
        assert ended in {0, -signal.SIGKILL} or STARVED in run.said, run.said
        killed += ended == -signal.SIGKILL
    topics.fill(source, numbered(DRIVER_KILLS * ROWS, (DRIVER_KILLS + 1) * ROWS, 2))
    for _ in range(STARVED_MAX):
        last = Run(topics, source, target, tmp_path / "checkpoint")
        if last.finish() == 0:
            break
        assert STARVED in last.said, last.said
    check(topics, target, (DRIVER_KILLS + 1) * ROWS, killed)
    assert killed > 0, "all runs were over before they were killed"


def test_each_row_is_there_once_however_often_workers_are_killed(
    topics: Topics, tmp_path: Path
) -> None:
    """Spark runs the tasks of a dead worker again; a query without its planner is started again."""
    chance = Chance(SEED)
    source, target = topics.make(2), topics.make(2)
    rows = 10 * ROWS
    topics.fill(source, numbered(0, rows, 2))
    killed = runs = 0
    ended: int | None = None
    while ended != 0:
        runs += 1
        assert runs <= WORKER_KILLS + STARVED_MAX, "it fails without being killed"
        run = Run(topics, source, target, tmp_path / "checkpoint")
        run.wait_for_a_micro_batch()
        while killed < WORKER_KILLS and not run.wait(chance.between(0, SECONDS / 4)):
            killed += run.kill_a_worker(chance)
        ended = run.finish()
    check(topics, target, rows, killed)
    assert killed > 0, "it was over before anything was killed"
