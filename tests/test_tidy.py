"""The rules of the house that no linter knows."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("src", "tests", "tools", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "generated" not in path.parts
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MODULE_LINES = 700
FUNCTION_LINES = 70


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 100


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_one_noun_and_its_functions_fit_a_screen(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MODULE_LINES, "two nouns: split it"
    tree = ast.parse(text)
    if path.is_relative_to(ROOT / "src") and tree.body:
        assert ast.get_docstring(tree), "a module opens with what it is"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"


def test_nothing_is_left_to_be_done() -> None:
    words = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if words.search(line)
    ]
    assert found == []


def test_the_english_is_for_readers_from_anywhere() -> None:
    """Software is no "he", logs diverge, and a sentence begins with the noun that acts."""
    banned = ("h" + "e", "h" + "is", "h" + "im", "h" + "imself", "depart" + "s?", "who" + "m?ever")
    words = re.compile(rf"\b({'|'.join(banned)}|(those|ones|all) who)\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*SOURCES, *DOCUMENTS]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line) and path != Path(__file__)
    ]
    assert found == []


def test_no_test_sleeps_unless_it_watches_a_real_process() -> None:
    real = ("integration", "hostile", "differential", "shipped")
    found = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.is_relative_to(ROOT / "tests")
        and not any(part in real for part in path.parts)
        and re.search(r"\bsleep\(", path.read_text())
        and path != Path(__file__)
    ]
    assert found == []


def test_helpers_of_tests_stand_once() -> None:
    """Waiting is ``tests/waiting.py``, a command against a broker ``tests/cli/command.py``."""
    helpers = re.compile(
        r"^(?:async )?def (eventually|until|wait_until|wait_for)\(|^class Command\b", re.MULTILINE
    )
    found = [
        str(path.relative_to(ROOT / "tests"))
        for path in SOURCES
        if path.is_relative_to(ROOT / "tests") and helpers.search(path.read_text())
    ]
    assert found == ["cli/command.py", "cli/command_process.py", "waiting.py"]


def test_each_package_says_what_it_is_and_names_its_counterpart() -> None:
    packages = sorted((ROOT / "src" / "ottla").glob("*/__init__.py"))
    assert len(packages) > 10
    for path in packages:
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert "Counterpart" in docstring, path
        assert "Invariant" in docstring, path


def test_every_link_of_the_internals_leads_somewhere() -> None:
    """``path::symbol`` in the documents names a symbol that is there."""
    documents = [ROOT / "ARCHITECTURE.md", ROOT / "DIFFERENCES.md"]
    documents += (ROOT / "docs").rglob("*.md")
    pattern = re.compile(r"`((?:src|tests|tools)/[\w/.]+\.py)(?:::([\w.]+))?`")
    links: list[tuple[Path, str, str | None]] = [
        (document, match[1], match[2])
        for document in documents
        for match in pattern.finditer(document.read_text())
    ]
    assert links
    for document, name, symbol in links:
        target = ROOT / name
        assert target.exists(), f"{document.name} speaks of {name}"
        if symbol:
            last = symbol.rpartition(".")[2]
            defined = {
                node.name
                for node in ast.walk(ast.parse(target.read_text()))
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            }
            assert last in defined, f"{document.name} speaks of {name}::{symbol}"
