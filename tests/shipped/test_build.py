"""What the build refuses: names that lead nowhere, and compiled modules older than their source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.kafka_peer.setup import PROJECT


def python(directory: Path, *words: str, path: Path | None = None) -> tuple[int, str]:
    variables = {**os.environ, "PYTHONPATH": str(path or "")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_hot_module_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "setup.py", tmp_path)
    code, said = python(tmp_path, "setup.py", "--version")
    assert code != 0
    assert "src/ottla/storage/log.py" in said


def tree(directory: Path, *, compiled_at: int, written_at: int) -> Path:
    """A work tree with one module, compiled in place."""
    source = directory / "src"
    (source / "ottla").mkdir(parents=True)
    (directory / "pyproject.toml").touch()
    shutil.copy(PROJECT / "src" / "ottla" / "__init__.py", source / "ottla")
    (source / "0123__mypyc.cpython-311-x86_64-linux-gnu.so").touch()
    for name, at in (("log.cpython-311-x86_64-linux-gnu.so", compiled_at), ("log.py", written_at)):
        (source / "ottla" / name).touch()
        os.utime(source / "ottla" / name, (at, at))
    return source


def test_a_module_that_was_edited_since_it_was_compiled_is_refused(tmp_path: Path) -> None:
    source = tree(tmp_path, compiled_at=1_000, written_at=2_000)
    code, said = python(tmp_path, "-c", "import ottla", path=source)
    assert code != 0
    assert "older than log.py" in said
    assert "make compile" in said


def test_what_was_compiled_since_is_taken(tmp_path: Path) -> None:
    source = tree(tmp_path, compiled_at=2_000, written_at=1_000)
    assert python(tmp_path, "-c", "import ottla", path=source) == (0, "")
