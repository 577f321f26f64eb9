"""A job that is ended by Ctrl-C: nothing of it runs on, neither Spark's JVM nor its workers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.spark.topics import Topics, numbered
from tests.waiting import eventually


def running(session: int) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


@pytest.fixture
def started(topics: Topics, tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    topic = topics.make()
    topics.fill(topic, numbered(0, 5_000))
    command = [sys.executable, "-m", "ottla", "jobs", "export", topic, str(tmp_path / "out")]
    options = ["-b", topics.address, "--master", "local[1]", "--option", "maxRecordsPerPartition=5"]
    with subprocess.Popen(
        [*command, *options],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        yield process
        for _ in running(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["while Spark starts", "while tasks run"])
def test_nothing_runs_on(started: "subprocess.Popen[bytes]", tmp_path: Path, moment: str) -> None:
    if moment == "while Spark starts":
        eventually(lambda: any("SparkSubmit" in each for each in running(started.pid)), seconds=120)
    else:
        eventually(lambda: any(tmp_path.rglob("*.parquet")), seconds=120)
    os.killpg(started.pid, signal.SIGINT)
    told, _ = started.communicate(timeout=120)
    assert started.returncode == 1, told
    assert b"Aborted!" in told
    assert running(started.pid) == []
