"""What is missing for Spark is said in sentences."""

import os
from pathlib import Path

import pytest

from ottla.demo.requirements import java_trouble, missing


def java(directory: Path, text: str, code: int = 0) -> dict[str, str]:
    """The environment of a machine with such a Java."""
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize("version", ["17.0.12", "21", "25.0.1"])
def test_a_java_that_is_new_enough_is_no_trouble(tmp_path: Path, version: str) -> None:
    assert not java_trouble(java(tmp_path, f'openjdk version "{version}" 2026-01-01'))


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_old_java_is_named(tmp_path: Path, version: str) -> None:
    told = java_trouble(java(tmp_path, f'java version "{version}"'))
    assert "too old" in told
    assert version in told


def test_no_java_at_all_is_said_with_what_to_do(tmp_path: Path) -> None:
    assert java_trouble({"PATH": str(tmp_path)}).startswith("no Java on the PATH: install")
    assert "does not run" in java_trouble({"JAVA_HOME": str(tmp_path)})
    assert "does not run" in java_trouble(java(tmp_path, "broken", code=1))


def test_packages_that_are_missing_are_said_with_the_command_that_brings_them(
    tmp_path: Path,
) -> None:
    environment = java(tmp_path, 'openjdk version "17"')
    told = missing(environment, packages=("json", "no_such_package"))
    assert told == ["no_such_package not installed: pip install 'ottla[spark]'"]
    assert missing(environment, packages=("json",)) == []
