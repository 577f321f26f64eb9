"""The supervisor with processes that are small programs: what it does when the world is unkind."""

import json
import os
import signal
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.supervision import driver
from ottla.server.supervision.state_file import STATE, StateFile

PROGRAM = """
import json, os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
answers, marker = int(sys.argv[1]), pathlib.Path(sys.argv[2])
def tell(what):
    os.write(answers, json.dumps(what).encode() + b"\\n")
tell({"event": "serving", "ports": {}})
print("a line", flush=True)
"""
DIES_ONCE = """
if not marker.exists():
    marker.touch()
    # Somebody else holds its output, so that the end of it is not the end of the process.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"])
    print("half a line", end="", flush=True)
    sys.exit(3)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(60)
"""
ANSWERS_WHILE_THERE_IS_NO_MARKER = """
for line in sys.stdin:
    if not marker.exists():
        tell({"id": 0, "event": "alive"})
"""


def supervisor(directory: Path, rest: str, output: BytesIO) -> driver.Driver:
    config = BrokerConfig.from_properties(development_properties(str(directory)))
    command = [sys.executable, "-c", PROGRAM + rest, "{answers}", str(directory / "marker")]
    state_file = StateFile([str(directory)])
    return driver.Driver([config], lambda _: command, os.environ, state_file, output=output)


def supervise(directory: Path, rest: str, output: BytesIO) -> int:
    return supervisor(directory, rest, output).run()


class Full(BytesIO):
    """A disk without room for another line."""

    def write(self, _data: object, /) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("output", [BytesIO, Full])
def test_a_process_is_started_again_whatever_becomes_of_its_lines(
    tmp_path: Path, output: type[BytesIO]
) -> None:
    lines = output()
    # The signal may come before or behind all else: here it does not come at all.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        assert supervise(tmp_path, DIES_ONCE, lines) == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    written = b"node-1 | a line\nnode-1 | half a line\nnode-1 | a line\n"
    assert lines.getvalue() == (b"" if output is Full else written)


def test_a_line_that_nobody_takes_is_no_mistake(tmp_path: Path) -> None:
    """It may be the last of a process whose end is being dealt with."""
    made = supervisor(tmp_path, DIES_ONCE, Full())
    made._show(1, b"a line")
    made._file.close()
    made._loop.close()


def test_a_process_that_does_not_answer_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(driver, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(driver, "SILENT_SECONDS", 0.5)
    seen: list[tuple[str, bool]] = []

    def watch() -> None:
        ends = time.monotonic() + 60
        while time.monotonic() < ends and ("silent", False) not in seen:
            time.sleep(0.02)
            try:
                (process,) = json.loads((tmp_path / STATE).read_text())["processes"]
            except FileNotFoundError:
                continue
            state = (process["state"], process["serves"])
            if state not in seen:
                seen.append(state)
            if state == ("serving", True) and not (tmp_path / "marker").exists():
                time.sleep(1.5)  # it answers, so that it is not silent by now
                (process,) = json.loads((tmp_path / STATE).read_text())["processes"]
                seen.append((f"still {process['state']}", process["serves"]))
                (tmp_path / "marker").touch()
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=watch)
    thread.start()
    supervise(tmp_path, ANSWERS_WHILE_THERE_IS_NO_MARKER, BytesIO())
    thread.join()
    told = [state for state in seen if state[0] != "starting"]
    assert told == [("serving", True), ("still serving", True), ("silent", False)]
