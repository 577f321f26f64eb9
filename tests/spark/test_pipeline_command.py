"""``ottla pipeline`` on the command line; what runs Spark runs in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.spark.committed import committed_records
from tests.spark.pipeline_files import WordCount
from tests.spark.topics import Topics
from tests.waiting import eventually

from ottla.cli.main import cli
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.state import FlowState, RunLock, RunState


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert call("init", tmp_path / "first").exit_code == 0
    return tmp_path / "first"


def state(directory: Path, status: str) -> RunState:
    flow = FlowState("words", "words", "streaming table", status, 17, error="it was away")
    made = RunState("minimal", "r", os.getpid(), "local[1]", 5_000, status, updated_ms=8_000)
    made.flows["words"] = flow
    states.write(directory / "storage", made)
    return made


def test_init_says_what_it_wrote_and_writes_over_nothing(directory: Path) -> None:
    assert (directory / "transformations" / "words.py").exists()
    again = call("init", directory)
    assert again.exit_code == 1
    assert "exists already; nothing was written" in again.output


@pytest.mark.parametrize("template", [(), ("--sql",), ("--template", "shop")])
@pytest.mark.parametrize(
    ("place", "name"),
    [("sales", "sales"), ("my shop!", "my-shop"), ("2026", "_2026"), ("Umsätze", "Ums-tze")],
)
def test_a_pipeline_is_called_as_its_directory(
    tmp_path: Path, place: str, name: str, template: tuple[str, ...]
) -> None:
    assert call("init", tmp_path / place, *template).exit_code == 0
    assert load(tmp_path / place).name == name
    for file in (tmp_path / place).glob("*.yml"):
        assert f"\nname: {name}\n" in file.read_text()


def test_a_directory_without_a_name_leaves_the_template_its_own(tmp_path: Path) -> None:
    assert call("init", tmp_path / "!").exit_code == 0
    assert load(tmp_path / "!").name == "minimal"


def test_a_mistake_in_the_file_is_told_without_a_trace(directory: Path) -> None:
    (directory / "pipeline.toml").write_text("naem = 1")
    for command in ("run", "status", "stop"):
        told = call(command, directory)
        assert told.exit_code == 1
        assert "naem is unknown; did you mean name?" in told.output


def test_where_nothing_runs_there_is_nothing_to_see_or_to_stop(directory: Path) -> None:
    seen = call("status", directory)
    assert (seen.exit_code, "nothing ever ran here" in seen.output) == (1, True)
    stopped = call("stop", directory)
    assert (stopped.exit_code, stopped.output) == (0, "it does not run\n")


def test_status_tells_how_it_is(directory: Path) -> None:
    (directory / "storage").mkdir()
    with RunLock(directory / "storage"):
        state(directory, states.RUNNING)
        seen = call("status", directory)
        assert seen.exit_code == 0
        assert seen.output.startswith("minimal  running  0:03  local[1]\n")
        assert "words, earlier: it was away" in seen.output
        told = json.loads(call("status", directory, "--json").output)
        assert told["flows"]["words"]["rows"] == 17
    died = call("status", directory)
    assert (died.exit_code, "died" in died.output) == (1, True)


def test_stop_asks_and_waits(directory: Path) -> None:
    place = directory / "storage"
    place.mkdir()
    asked = threading.Event()

    def run_until_asked() -> None:
        with RunLock(place):
            running = state(directory, states.RUNNING)
            asked.set()
            eventually(lambda: states.is_asked_to_stop(place, running.run_id))

    runs = threading.Thread(target=run_until_asked)
    runs.start()
    assert asked.wait(10)
    assert call("stop", directory).output == "stopped\n"
    runs.join()
    with RunLock(place):
        late = call("stop", directory, "--timeout", "1")
    assert late.exit_code == 1
    assert f"process {os.getpid()} still runs after 1 s" in late.output


COMMAND = [sys.executable, "-m", "ottla", "pipeline"]
SETTINGS = ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_ends_cleanly_by_stop_and_by_a_signal(topics: Topics, tmp_path: Path) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=True, per_batch=100)
    place = words.pipeline.state_directory

    def running() -> bool:
        now = states.read(place)
        return now is not None and now.status == states.RUNNING and now.flows["words"].rows > 0

    for ending in ("stop", "signal"):
        words.write(["a", "b"])
        command = [*COMMAND, "run", str(words.directory), "--master", "local[2]", *SETTINGS]
        with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as process:
            eventually(running, seconds=300)
            if ending == "stop":
                subprocess.run([*COMMAND, "stop", str(words.directory)], check=True, timeout=300)
            else:
                process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        last = [json.loads(line) for line in said.splitlines()][-1]
        assert last["status"] == states.STOPPED
    once = [*COMMAND, "run", str(words.directory), "--master", "local[2]", "--once", *SETTINGS]
    subprocess.run(once, check=True, timeout=600)
    words.check()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_of_spark_runs_the_same_file(topics: Topics, tmp_path: Path) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=False, per_batch=100)
    words.write(["a", "b", "a"])
    spec = words.write_spec_of_spark()
    program = Path(sys.executable).with_name("spark-pipelines")
    static = ["--conf", "spark.ui.enabled=false"]
    static += ["--conf", f"spark.sql.warehouse.dir={words.directory}/warehouse"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [program, *static, "run", "--spec", spec],
        env=environment,
        cwd=words.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:]
    copied = committed_records(topics.address, words.copies)
    values = [each.value or b"" for some in copied.values() for each in some]
    assert Counter(value.decode() for value in values) == words.written
    changes = committed_records(topics.address, words.target)
    told = [json.loads(each.value or b"") for some in changes.values() for each in some]
    assert {each["word"]: each["count"] for each in told} == words.written
