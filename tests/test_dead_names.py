"""The check for dead names finds what is dead, and lets live what is used in any way."""

from pathlib import Path

import pytest
from tools import dead_names

USED = """
from typing import NewType

UNUSED = 1
USED = 2
Unused = NewType("Unused", int)


class Kept:
    field: int
    lost: int

    def called(self) -> int:
        return self.field

    def never_called(self) -> None: ...


def by_name() -> None: ...


def renamed() -> None: ...
"""
PROGRAM = """
from ottla.thing import USED, Kept, renamed as other

print(USED, Kept().called(), getattr(other, "by_name"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for place, text in (("src/ottla/thing.py", USED), ("tools/program.py", PROGRAM)):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def test_what_nothing_uses_is_found(project: Path) -> None:
    found = {each.name for each in dead_names.dead(project)}
    assert found == {"UNUSED", "Unused", "lost", "never_called"}


def test_a_dead_name_fails_the_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dead_names.main(project) == 1
    assert "src/ottla/thing.py:4: nothing uses UNUSED" in capsys.readouterr().out


def test_a_use_in_tests_counts_only_for_what_tests_are_for(tmp_path: Path) -> None:
    for place in ("src/ottla/thing.py", "src/ottla/testing/double.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "src/ottla/thing.py").write_text("def product() -> None: ...\n")
    (tmp_path / "src/ottla/testing/double.py").write_text("def double() -> None: ...\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text("print(product, double)\n")
    assert [each.name for each in dead_names.dead(tmp_path)] == ["product"]


def test_what_need_not_be_allowed_is_said(project: Path) -> None:
    assert dead_names.needless(project) >= dead_names.KEPT, "none of these is in this project"
