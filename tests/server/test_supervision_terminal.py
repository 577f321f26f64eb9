"""A closing terminal ends the processes of a machine, and is no wish for a restart."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import eventually
from tools.installed import IMPORT_PATH

AT_TERMINAL = """
import os, signal, sys
os.close(os.open(sys.argv[1], os.O_RDWR))  # the first one that a session opens is its own
if sys.argv[2] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "ottla", *sys.argv[3:]])
"""
WORDS = ("dev", "-p", "2", "--any-port", "-v")

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("way", ["plain", "nohup"])
def test_a_terminal_that_is_closed(tmp_path: Path, way: str) -> None:
    master, slave = os.openpty()
    output = tmp_path / "output"
    with output.open("wb") as written:
        started = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, os.ttyname(slave), way, *WORDS],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": IMPORT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        os.close(slave)
        eventually(
            lambda: started.poll() is not None or "ottla is ready" in output.read_text(), seconds=90
        )
        assert started.poll() is None, output.read_text()
        os.close(master)
        if way == "plain":
            assert started.wait(20) == 0
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                started.wait(1)
            assert "restart" not in output.read_text().split("ottla is ready")[1]
            started.send_signal(signal.SIGHUP)
            eventually(
                lambda: "restart" in output.read_text().split("ottla is ready")[1], seconds=30
            )
            started.send_signal(signal.SIGTERM)
            started.wait(20)  # in the middle of a restart
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
