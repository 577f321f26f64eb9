"""The glossary of ARCHITECTURE.md holds: one word for one thing, one class for one name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "ottla"
SHELLS = {"cli", "client", "demo", "inspection", "simulation", "spark", "testing"}
"""Programs of their own: what they call as the broker does is another view of the same thing."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not {"generated", "templates"} & set(path.parts):
            yield path, ast.parse(path.read_text())


def banned() -> set[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## Glossary")[2]
    rows = [line.split("|") for line in text.partition("\n## ")[0].splitlines() if "|" in line]
    return {word for row in rows for word in re.findall(r"`(\w+)`", row[3])}


def names(path: Path, tree: ast.Module) -> Iterator[str]:
    yield path.stem
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def words(name: str) -> str:
    """A name of any case as ``_words_with_bars_around_``."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_") + "_"


def said(name: str, word: str) -> bool:
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"_{word}_" in words(name) or f"_{plural}_" in words(name)


def test_words_that_are_not_ours_are_no_part_of_names() -> None:
    wrong = banned()
    assert {"reply", "life", "master"} <= wrong, "the table was found"
    found = {
        name: str(path.relative_to(ROOT))
        for path, tree in modules()
        for name in names(path, tree)
        if any(said(name, word) for word in wrong)
    }
    assert found == {}


def test_a_public_class_of_the_broker_has_a_name_of_its_own() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in modules():
        if path.relative_to(PACKAGE).parts[0] not in SHELLS:
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_check_sees_a_word_in_names_of_any_case() -> None:
    assert said("VoteReply", "reply")
    assert said("_send_replies", "reply")
    assert not said("replied", "reply")
    assert not said("determine", "term")
