"""The programs of ``examples`` do what they say, as a reader would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.installed import IMPORT_PATH

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LAST_LINES = {
    "produce_and_consume.py": "read [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    "confluent.py": "read ['hello, Ada', 'hello, Edsger', 'hello, Grace']",
    "transactions.py": "copied once: True",
    "spark_read.py": "counted {'batch': 1, 'log': 3, 'offset': 1}",
    "own_fault.py": "all is well",
}
AS_TESTS = {"test_orders.py": "2 passed"}


def test_every_example_is_run_and_listed() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    assert found == LAST_LINES.keys() | AS_TESTS.keys()
    page = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in found if f"({name})" not in page] == []


def run(directory: Path, *command: str) -> str:
    paths = [IMPORT_PATH, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_an_example_ends_as_it_should(name: str, tmp_path: Path) -> None:
    assert LAST_LINES[name] in run(tmp_path, str(EXAMPLES / name))


@pytest.mark.parametrize("name", sorted(AS_TESTS))
def test_an_example_passes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text((EXAMPLES / name).read_text("utf-8"))
    last = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)
    assert AS_TESTS[name] in last
