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

from ottla.client.system_time import SystemTime
from ottla.common.chance import Chance
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.state import RunState

KILLS = int(os.environ.get("OTTLA_PIPELINE_KILLS", "10"))
SEED = int(os.environ.get("OTTLA_PIPELINE_SEED", "0")) or Chance().below(1 << 32)
WORDS = [f"w{at}" for at in range(20)]
ROWS = 120
"""Written before each run: six micro-batches."""
STEPS = 25
"""A run lives until it has made so many steps at most: offsets planned, batches committed, ..."""
SECONDS = 2.0
"""And then so long at most, so that the kill falls anywhere in a step."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_000)]


class PipelineProcess:
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

    def wait_for(self, place: Path, count: int) -> None:
        """Until it has made so many steps, or has nothing to do any more."""
        first = steps(place)
        for _ in range(9_000):
            assert self.wait(0.1) is None, self.said
            if steps(place) >= first + count:
                return
            state = states.read(place)
            if state is not None and state.pid == self.process.pid and is_done(state):
                return
        raise AssertionError(f"nothing moves: {self.said}")

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


def steps(place: Path) -> int:
    """How many files tell of a step."""
    patterns = ("checkpoints/*/offsets/*", "checkpoints/*/commits/*", "tables/*/_log/*")
    return sum(len(list(place.glob(each))) for each in patterns)


def is_done(state: RunState) -> bool:
    """The last rows came a while ago."""
    latest = max((flow.updated_ms or 0 for flow in state.flows.values()), default=0)
    lag = state.flows["words"].lag if "words" in state.flows else None
    return lag == 0 and SystemTime().wall_ms() - latest > 15_000


def test_everything_is_there_once_however_often_a_pipeline_is_killed(
    topics: Topics, tmp_path: Path
) -> None:
    chance = Chance(SEED)
    words = WordCount(topics, tmp_path / "p", in_sql=False, per_batch=20, keep="1 second")
    place = words.pipeline.state_directory
    started: list[PipelineProcess] = []
    seen: list[int] = []
    """Steps that were made when a run was killed."""
    try:
        for _ in range(KILLS):
            words.write([chance.choose(WORDS) for _ in range(ROWS)])
            command = PipelineProcess(words)
            started.append(command)
            command.wait_for(place, 1 + chance.below(STEPS))
            assert command.wait(chance.between(0, SECONDS)) is None, command.said
            command.kill(whole=chance.choose([True, False]))
            seen.append(steps(place))
            state = states.read(place)
            assert state is not None
            assert state.status == states.DIED
        words.write([chance.choose(WORDS) for _ in range(ROWS)])
        last = PipelineProcess(words, "--once")
        started.append(last)
        assert last.wait(900) == 0, last.said
        words.check()
        assert seen[-1] > seen[0], "every run was killed before it did anything"
    except BaseException:
        print(f"OTTLA_PIPELINE_SEED={SEED} repeats it; killed after {seen}")
        raise
    finally:
        for each in started:
            each.end()
