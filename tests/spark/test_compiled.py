"""Source and sink on the modules that mypyc compiles: those take only the types that they name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = """
from mypyc.build import mypycify
from setuptools import setup

modules = mypycify({names!r}, opt_level="0")
setup(name="compiled", packages=[], package_dir={{"": "src"}}, ext_modules=modules)
"""
TESTS = ("test_encoding.py", "test_reads.py", "test_writer.py")


def python(*arguments: str, where: Path, source: Path) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_rows_are_read_and_written_by_compiled_modules_too(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    hot = (ROOT / "setup.py").read_text()
    names = re.findall(r'"(src/ottla/(?:records|protocol)/\w+\.py)"', hot)
    (tmp_path / "build.py").write_text(BUILD.format(names=names))
    python("build.py", "--quiet", "build_ext", "--inplace", where=tmp_path, source=source)
    native = "import ottla.records.batch as it; assert not it.__file__.endswith('.py')"
    python("-c", native, where=tmp_path, source=source)
    tests = [f"tests/spark/{name}" for name in TESTS]
    chosen = ("-m", "not slow and not peer", "-p", "no:randomly", "-p", "no:cacheprovider")
    python("-m", "pytest", "-q", *chosen, *tests, where=ROOT, source=source)
