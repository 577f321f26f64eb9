"""Jobs are killed at any moment and run again: what other clients read is as if nothing was."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.spark.kafka_reader import read_topic
from tests.spark.test_jobs_backfill import files
from tests.spark.test_jobs_repartition import by_key, rows
from tests.spark.topics import Topics

from ottla.common.chance import Chance

KILLS = int(os.environ.get("OTTLA_JOB_KILLS", "5"))
SEED = int(os.environ.get("OTTLA_JOB_SEED", "0")) or Chance().below(1 << 32)
SECONDS = float(os.environ.get("OTTLA_JOB_SECONDS", "3"))
"""How long a run lives at most after it was seen to have begun."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Runs:
    """A command, started again and again; what it said of its last run is in a file."""

    def __init__(self, topics: Topics, directory: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "ottla", "jobs", *arguments, "-b", topics.address]
        self._said = directory / "said"

    def start(self) -> "subprocess.Popen[bytes]":
        with self._said.open("wb") as said:
            return subprocess.Popen(
                [*self._command, "--quiet"],
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )

    def kill(self, process: "subprocess.Popen[bytes]", seconds: float) -> bool:
        """After so long, with all that belongs to it; whether it was still at work."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        is_at_work = process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return is_at_work

    def finish(self) -> None:
        process = self.start()
        try:
            assert process.wait(400) == 0, self._said.read_text()[-6000:]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_more(topics: Topics, target: str, process: "subprocess.Popen[bytes]") -> None:
    """Until something was written to a topic, or the process is at its end."""
    before = size(topics, target)
    while process.poll() is None and size(topics, target) == before:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


def size(topics: Topics, topic: str) -> int:
    from tests.spark.committed import ends

    return sum(ends(topics.address, topic).values())


@pytest.mark.parametrize("master", ["none", "local[2,4]"])
def test_a_topic_is_repartitioned_exactly_however_often_it_is_killed(
    topics: Topics, tmp_path: Path, master: str
) -> None:
    chance = Chance(SEED)
    source, target = topics.make(3), topics.make(5)
    arguments = ["repartition", source, target, "--master", master]
    runs = Runs(topics, tmp_path, *arguments, "--transaction-records", "150")
    killed: Counter[bool] = Counter()
    written = 0
    for _ in range(KILLS):
        topics.fill(source, rows(written, written + 3000, 3))
        written += 3000
        process = runs.start()
        wait_for_more(topics, target, process)
        killed[runs.kill(process, chance.between(0, SECONDS))] += 1
    runs.finish()
    original = read_topic(topics.address, source, 3)
    assert sum(map(len, original)) == written
    copied = read_topic(topics.address, target, 5)
    assert by_key(copied) == by_key(original), f"OTTLA_JOB_SEED={SEED} repeats it; {killed}"
    assert killed[True] > 0, "all runs were over before they were killed"


@pytest.mark.parametrize("master", ["none", "local[2,4]"])
def test_a_table_is_backfilled_exactly_however_often_it_is_killed(
    topics: Topics, tmp_path: Path, master: str
) -> None:
    chance = Chance(SEED)
    topic = topics.make(3)
    table = files(tmp_path / "t", 100, 400)
    arguments = ["backfill", str(table), topic, "--key", "id", "--master", master]
    runs = Runs(topics, tmp_path, *arguments)
    killed: Counter[bool] = Counter()
    for _ in range(KILLS):
        process = runs.start()
        wait_for_more(topics, topic, process)
        killed[runs.kill(process, chance.between(0, SECONDS / 3))] += 1
    runs.finish()
    found = Counter(
        each.key for records in read_topic(topics.address, topic, 3) for each in records
    )
    wanted = Counter(b"%d" % i for i in range(40_000))
    assert found == wanted, f"OTTLA_JOB_SEED={SEED} repeats it; {killed}"
    assert killed[True] > 0, "all runs were over before they were killed"
