"""The wheel as a user gets it: by pip, in an empty environment, and then at work."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from tests.shipped.test_modules import hot_modules

PATIENCE = 60.0
KEYS = 10
ROUNDS = 30
CLEANER = (
    "log.cleaner.backoff.ms=200",
    "log.cleaner.min.cleanable.ratio=0.01",
)
pytestmark = pytest.mark.xdist_group("shipped")  # one environment for all
TOPIC = ("cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01")


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, what it asks for, and nothing else."""
    directory = tmp_path_factory.mktemp("empty")
    home = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    python = str(home) if home.exists() else sys.executable
    subprocess.run([python, "-m", "venv", str(directory)], env=variables(), check=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], env=variables(), check=True)
    return directory / "bin"


def variables() -> dict[str, str]:
    """The environment of somebody who has nothing of ours: other tests set Python's path."""
    ours = ("PYTHON", "OTTLA_", "KAFKA_", "PYSPARK")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


class User:
    """Somebody with a shell and this one program."""

    def __init__(self, scripts: Path, directory: Path) -> None:
        self._program = str(scripts / "ottla")
        self._directory = directory
        self._variables = {**variables(), "HOME": str(directory)}

    def start(self, *words: str, said: TextIO) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [self._program, *words],
            cwd=self._directory,
            env=self._variables,
            stdout=said,
            stderr=subprocess.STDOUT,
        )

    def __call__(self, *words: str, lines: str = "") -> str:
        done = subprocess.run(
            [self._program, *words],
            cwd=self._directory,
            env=self._variables,
            input=lines,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def user(scripts: Path, tmp_path: Path) -> User:
    return User(scripts, tmp_path)


@pytest.fixture
def broker(user: User, tmp_path: Path) -> Iterator[str]:
    """The address of ``ottla dev``, which ends well by Ctrl-C."""
    overrides = [word for setting in CLEANER for word in ("--override", setting)]
    words = ["dev", "--any-port", "--data", "data", "--verbose", *overrides]
    path = tmp_path / "said"
    with path.open("w") as said:
        started = user.start(*words, said=said)
    try:
        yield address_in(path, started)
        started.send_signal(signal.SIGINT)
        assert started.wait(PATIENCE) == 0, path.read_text()
        assert "Traceback" not in path.read_text()
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()


def address_in(path: Path, started: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and started.poll() is None:
        if found := re.search(r"127\.0\.0\.1:\d+", path.read_text()):
            return found[0]
        time.sleep(0.05)
    pytest.fail(path.read_text())


def test_hot_modules_are_compiled(user: User) -> None:
    compiled = json.loads(user("version", "--json"))["compiled"]
    assert len(compiled) == len(hot_modules())


def test_it_produces_consumes_and_compacts(user: User, broker: str) -> None:
    settings = [word for setting in TOPIC for word in ("-c", setting)]
    user("topics", "create", "compacted", "-p", "1", *settings, "-b", broker)
    for number in range(ROUNDS):
        # Random text is not worth compressing, and fills a segment per few rounds.
        lines = "".join(f"{key}:{number}-{os.urandom(10_000).hex()}\n" for key in range(KEYS))
        user("produce", "compacted", "-K", ":", "-q", "-b", broker, lines=lines)
    latest = {str(key): str(ROUNDS - 1) for key in range(KEYS)}
    deadline = time.monotonic() + PATIENCE
    while True:
        printed = user("consume", "compacted", "--from-beginning", "-e", "-K", ":", "-b", broker)
        records = [
            (line.partition(":")[0], re.split("[:-]", line)[1]) for line in printed.splitlines()
        ]
        assert dict(records) == latest
        if len(records) < KEYS * ROUNDS / 2:
            return
        assert time.monotonic() < deadline, f"{len(records)} records after {PATIENCE} s"
        time.sleep(0.5)


def test_it_simulates(user: User) -> None:
    assert "1 " in user("sim", "--seed", "1", "--time", "5")
