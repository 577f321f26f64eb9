"""``ottla`` as a process: started in a directory of its own, followed by what it says, stopped."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools.installed import IMPORT_PATH


@contextmanager
def command_process(
    *words: str,
    directory: Path,
    variables: Mapping[str, str] | None = None,
    own_session: bool = False,
) -> Iterator["subprocess.Popen[str]"]:
    """``ottla`` with these words; a session of its own can be sent signals as a whole."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    started = subprocess.Popen(
        [sys.executable, "-m", "ottla", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env={**plain, "PYTHONPATH": IMPORT_PATH, **(variables or {})},
        start_new_session=own_session,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def wait_for(started: "subprocess.Popen[str]", pattern: str) -> "re.Match[str]":
    """The first line that matches; a failure when the process ends before."""
    assert started.stdout is not None
    lines = []
    for line in started.stdout:
        lines.append(line)
        match = re.search(pattern, line)
        if match is not None:
            return match
    pytest.fail(f"no line like {pattern!r} in:\n{''.join(lines)}")


def stop(
    started: "subprocess.Popen[str]", number: int, *, whole: bool = False, seconds: float = 60
) -> tuple[int, str]:
    """Send a signal, also to all of its group as a terminal does; exit code and last words."""
    assert started.stdout is not None
    if whole:
        os.killpg(started.pid, number)
    else:
        started.send_signal(number)
    rest = started.stdout.read()
    return started.wait(seconds), rest
