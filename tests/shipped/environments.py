"""Environments with the wheel, and with what it asks for alone."""

import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class Environment:
    """A directory that is all that an interpreter can import from, but for Python's own library."""

    def __init__(self, directory: Path, wheel: Path, extras: Iterable[str]) -> None:
        self.directory = directory
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
        for name in sorted(_needed(directory, extras)):
            _link(importlib.metadata.distribution(name), directory)

    def run(self, program: str) -> "subprocess.CompletedProcess[str]":
        first = f"import sys; sys.path.append({str(self.directory)!r})\n"
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", first + program],
            capture_output=True,
            text=True,
            check=False,
        )


def _needed(directory: Path, extras: Iterable[str]) -> set[str]:
    """What the wheel asks for, and what that asks for; each by its name alone."""
    (wheel,) = importlib.metadata.distributions(path=[str(directory)])
    found: set[str] = set()
    left = [(wheel, frozenset(extras))]
    while left:
        distribution, wanted = left.pop()
        for requirement in _requirements(distribution, wanted):
            name = canonicalize_name(requirement.name)
            if name not in found or requirement.extras:
                found.add(name)
                child = importlib.metadata.distribution(name)
                left.append((child, frozenset(requirement.extras)))
    return found


def _requirements(
    distribution: importlib.metadata.Distribution, extras: frozenset[str]
) -> Iterator[Requirement]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def _link(distribution: importlib.metadata.Distribution, directory: Path) -> None:
    for file in distribution.files or ():
        first = file.parts[0]
        link = directory / first
        if first not in {"..", "__pycache__"} and not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(first))))
