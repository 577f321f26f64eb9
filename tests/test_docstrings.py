"""What docstrings and comments name is there: modules, classes, functions, attributes."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent / "src" / "ottla"
ROLE = re.compile(r":(mod|class|meth|func|attr):`~?([\w.]+)`")
MEMBER = re.compile(r"``([A-Z]\w+)\.([a-z_]+)``")


class Names(NamedTuple):
    modules: set[str]
    classes: set[str]
    all: set[str]


@cache
def names() -> Names:
    modules, classes, everything = set(), set(), set()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules.add(".".join(part for part in parts if part != "__init__"))
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ClassDef(name=name):
                    classes.add(name)
                    everything.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    everything.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                    everything.add(name)
                case ast.arg(arg=name):
                    everything.add(name)
                case _:
                    pass
    return Names(modules, classes, everything)


def missing(text: str) -> Iterator[str]:
    """The names in a text that nothing here bears."""
    modules, classes, everything = names()
    for kind, name in ROLE.findall(text):
        if kind == "mod":
            known = any(each == name or each.endswith(f".{name}") for each in modules)
        else:
            known = name.rpartition(".")[2] in everything
        if not known:
            yield f":{kind}:`{name}`"
    for holder, name in MEMBER.findall(text):
        if holder in classes and name not in everything:
            yield f"``{holder}.{name}``"


def test_what_is_named_is_there() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lost
        for path in sorted(PACKAGE.rglob("*.py"))
        if "generated" not in path.parts and (lost := list(missing(path.read_text())))
    }
    assert found == {}


def test_what_is_not_there_is_seen() -> None:
    text = ":mod:`nowhere` :mod:`raft.node` :meth:`Log.vanished` ``Log.lost_for_ever`` ``Log.roll``"
    assert list(missing(text)) == [
        ":mod:`nowhere`",
        ":meth:`Log.vanished`",
        "``Log.lost_for_ever``",
    ]
