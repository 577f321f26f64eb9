"""``ottla pipeline run`` is killed at any moment; tables and topics are exact nevertheless."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.spark.pipeline_files import WordCount
from tests.spark.topics import Topics

from ottla.common.chance import Chance
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.state import RUNNING

KILLS = int(os.environ.get("OTTLA_PIPELINE_KILLS", "10"))
SEED = int(os.environ.get("OTTLA_PIPELINE_SEED", "0")) or Chance().below(1 << 32)
WORDS = [f"w{at}" for at in range(20)]
ROWS = 120
"""Written before each run: six micro-batches."""
SECONDS = float(os.environ.get("OTTLA_PIPELINE_SECONDS", "12"))
"""How long a run lives at most once its flows run."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_000)]


class Command:
    """``ottla pipeline run`` as a process."""

    def __init__(self, words: WordCount, *arguments: str) -> None:
        self._log = words.directory.with_suffix(".log")
        settings = ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=2"]
        settings.append("spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(words.directory)]
        command += ["--master", "local[2]", *arguments]
        for each in settings:
            command += ["--conf", each]
        with self._log.open("w") as said:
            self.process = subprocess.Popen(
                command, stdout=said, stderr=said, start_new_session=True
            )

    @property
    def said(self) -> str:
        return self._log.read_text()[-6_000:]

    def wait(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def wait_until_it_runs(self, place: Path) -> None:
        while self.wait(0.1) is None:
            state = states.read(place)
            if state is not None and state.pid == self.process.pid and state.status == RUNNING:
                return

    def kill(self, *, whole: bool) -> None:
        """The command alone, whose Spark then ends by itself, or all that belongs to it."""
        with suppress(ProcessLookupError):
            if whole:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait(60)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def test_everything_is_there_once_however_often_a_pipeline_is_killed(
    topics: Topics, tmp_path: Path
) -> None:
    chance = Chance(SEED)
    words = WordCount(topics, tmp_path / "p", in_sql=False, per_batch=20)
    place = words.pipeline.state_directory
    started: list[Command] = []
    killed = 0
    try:
        for _ in range(KILLS):
            words.write([chance.choose(WORDS) for _ in range(ROWS)])
            command = Command(words)
            started.append(command)
            command.wait_until_it_runs(place)
            assert command.wait(chance.between(0, SECONDS)) is None, command.said
            command.kill(whole=chance.choose([True, False]))
            killed += 1
            state = states.read(place)
            assert state is not None
            assert state.status == states.DIED
        words.write([chance.choose(WORDS) for _ in range(ROWS)])
        last = Command(words, "--once")
        started.append(last)
        assert last.wait(900) == 0, last.said
        words.check()
    except BaseException:
        print(f"OTTLA_PIPELINE_SEED={SEED} repeats it; {killed} were killed")
        raise
    finally:
        for each in started:
            each.end()
