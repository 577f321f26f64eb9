"""What the pipeline needs and this machine lacks, each as a sentence that says what to do."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PACKAGES: Final = ("numba", "pandas", "pyarrow", "pyspark")
JAVA_LEAST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 20.0


def missing(
    environment: Mapping[str, str] = os.environ, packages: Sequence[str] = PACKAGES
) -> list[str]:
    """Nothing, if a pipeline can run here."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    sentences = []
    if absent:
        sentences.append(f"{', '.join(absent)} not installed: pip install 'ottla[spark]'")
    java = java_trouble(environment)
    if java:
        sentences.append(java)
    return sentences


def java_trouble(environment: Mapping[str, str]) -> str:
    """What is wrong with Java, by the rules by which Spark finds it; nothing if it is well."""
    home = environment.get("JAVA_HOME")
    program = (
        str(Path(home) / "bin" / "java")
        if home
        else shutil.which("java", path=environment.get("PATH", ""))
    )
    advice = f"install a JRE of version {JAVA_LEAST} or later, or set JAVA_HOME to one"
    if program is None:
        return f"no Java on the PATH: {advice}"
    try:
        told = subprocess.run(  # noqa: S603 - the one that Spark will run
            [program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({type(error).__name__}): {advice}"
    found = _VERSION.search(told)
    if found is None or int(found[1]) < JAVA_LEAST:
        shown = told.splitlines()[0] if told else "nothing"
        return f"{program} is too old (it says {shown}): {advice}"
    return ""
