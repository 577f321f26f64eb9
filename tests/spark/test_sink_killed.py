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

from ottla.common.chance import Chance

KILLS = int(os.environ.get("OTTLA_SINK_KILLS", "10"))
SEED = int(os.environ.get("OTTLA_SINK_SEED", "0")) or Chance().below(1 << 32)
ROWS = 400
"""Written before each run: four micro-batches."""
SECONDS = float(os.environ.get("OTTLA_SINK_SECONDS", "8"))
"""How long a run lives at most after its first micro-batch began."""
PROGRAM = Path(__file__).with_name("killed_query.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def complaints(checkpoint: Path) -> Path:
    return checkpoint.with_suffix(".log")


def start(topics: Topics, source: str, target: str, checkpoint: Path) -> "subprocess.Popen[str]":
    with complaints(checkpoint).open("w") as said:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), topics.address, source, target, str(checkpoint)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def kill(process: "subprocess.Popen[str]", what: str, chance: Chance) -> None:
    """The driver with all that belongs to it, or one of the workers that run tasks."""
    if what == "driver":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return
    with suppress(psutil.NoSuchProcess):
        workers = [
            each
            for each in psutil.Process(process.pid).children(recursive=True)
            if "pyspark.daemon" in " ".join(each.cmdline())
        ]
        if workers:
            chance.choose(workers).kill()


def wait_for_a_micro_batch(process: "subprocess.Popen[str]", checkpoint: Path) -> None:
    """Until one has begun that was not there before, or one is run again."""
    seen = len(list(checkpoint.glob("offsets/[0-9]*")))
    done = len(list(checkpoint.glob("commits/[0-9]*")))
    while seen == done == len(list(checkpoint.glob("offsets/[0-9]*"))):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            return


def finish(process: "subprocess.Popen[str]") -> None:
    """Whatever became of it, nothing of it is left."""
    try:
        process.wait(400)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_each_row_is_there_once_however_often_the_query_is_killed(
    topics: Topics, tmp_path: Path
) -> None:
    chance = Chance(SEED)
    source, target = topics.make(2), topics.make(2)
    checkpoint = tmp_path / "checkpoint"
    killed: Counter[str] = Counter()
    for number in range(KILLS):
        topics.fill(source, numbered(number * ROWS, (number + 1) * ROWS, 2))
        process = start(topics, source, target, checkpoint)
        wait_for_a_micro_batch(process, checkpoint)
        what = chance.choose(["driver", "driver", "worker"])
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.between(0, SECONDS))
        killed[what] += process.poll() is None
        kill(process, what, chance)
        finish(process)
    topics.fill(source, numbered(KILLS * ROWS, (KILLS + 1) * ROWS, 2))
    last = start(topics, source, target, checkpoint)
    finish(last)
    assert last.returncode == 0, complaints(checkpoint).read_text()[-6000:]
    found = Counter(committed_values(topics.address, target))
    wanted = Counter(b"%d" % i for i in range((KILLS + 1) * ROWS))
    assert found == wanted, f"OTTLA_SINK_SEED={SEED} repeats it; {killed}"
    assert killed.total() > 0, "all runs were over before anything was killed"
