"""Names of ``src`` that nothing uses: ``make check`` fails when there is one.

A name is a function, class, method, constant or field that is defined in ``src``. It is used where
any program of ours reads a name or an attribute of that spelling, or has it as a string; tests do
not count, so that code which only its own test calls is found too. One spelling used anywhere
saves all that are spelled so: what is found is dead, what is not found may be.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PROGRAMS: Final = ("src", "tools", "benchmarks", "examples", "setup.py")
FOR_TESTS: Final = ("src/ottla/testing/", "src/ottla/simulation/")
"""What tests are for, tests may be the only ones to use."""
KAFKAS_LISTS: Final = ("config/keys/", "config/group.py", "config/topic.py", "common/errors.py")
"""Kept whole, whether or not we have a use for each of their names; so are all enumerations."""
CALLED_BY_OTHERS: Final = frozenset(
    {
        # click
        "get_command",
        "format_commands",
        # pytest
        "pytest_configure",
        # pyiceberg
        "commit_table",
        # Spark: data sources, and the registry of a pipeline's graph
        "streamReader",
        "streamWriter",
        "initialOffset",
        "getDefaultReadLimit",
        "prepareForTriggerAvailableNow",
        "reportLatestOffset",
        "register_output",
        "register_flow",
        "register_auto_cdc_flow",
    }
)
KEPT: Final = frozenset(
    {
        "connection_count",  # what tests see of a server from outside
        "encode_response_header",  # the peer of a client, in tests
        "error_ms",  # goes into a pipeline's state file with the whole object
        "exposition",  # the page of metrics, which no listener serves yet
        "highest_offset_for_epoch",  # compared with Kafka's cache by the peer test
        "map_key",  # part of the schema's notation
        "parse_name",  # the inverse of a metric's name
        "request_class",  # of an API that is known by its number, as the response is
        "take_snapshot",  # a snapshot now, for tests that do not wait for one
    }
)
"""Each with the reason why it stays."""
PATH: Final = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)*")


class Definition(NamedTuple):
    """Where a name comes from."""

    path: Path
    line: int
    name: str


def definitions(path: Path, tree: ast.Module) -> Iterator[Definition]:
    """What a module defines for others: no locals, nothing that a decorator hands on."""
    bodies: list[list[ast.stmt]] = [tree.body]
    while bodies:
        for node in bodies.pop():
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    if not any(isinstance(each, ast.Call) for each in node.decorator_list):
                        yield Definition(path, node.lineno, node.name)
                case ast.ClassDef():
                    yield Definition(path, node.lineno, node.name)
                    if not any("Enum" in ast.unparse(base) for base in node.bases):
                        bodies.append(node.body)
                case ast.Assign(targets=targets):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            yield Definition(path, node.lineno, target.id)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield Definition(path, node.lineno, name)
                case ast.If() | ast.Try() | ast.With():
                    bodies.append(node.body)
                case _:
                    pass


def uses(tree: ast.Module) -> Iterator[str]:
    """Every name that is read, and every string that may be one."""
    own_names: set[ast.expr] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.MatchClass(kwd_attrs=names):
                yield from names
            case ast.alias(name=name, asname=str()):
                yield name
            case ast.Call(func=ast.Name(id="NewType" | "TypeVar" | "TypeVarTuple" | "ParamSpec")):
                own_names.update(node.args[:1])
            case ast.Constant(value=str(text)) if node not in own_names and PATH.fullmatch(text):
                yield from re.split(r"[.:]", text)
            case _:
                pass


def dead(root: Path) -> list[Definition]:
    """The definitions below ``src`` whose name is nowhere used."""
    known = {name for _, tree in _modules(root) for name in uses(tree)} | CALLED_BY_OTHERS | KEPT
    found = [
        each
        for path, tree in _modules(root)
        if path.parts[0] == "src" and not _is_list(path)
        for each in definitions(path, tree)
        if each.name not in known and not each.name.startswith("__")
    ]
    tests = "\n".join(path.read_text() for path in (root / "tests").rglob("*.py"))
    return [
        each
        for each in found
        if not each.path.as_posix().startswith(FOR_TESTS) or each.name not in tests
    ]


def needless(root: Path) -> set[str]:
    """What is allowed here, and used or gone by now."""
    modules = [each for each in _modules(root) if each[0] != Path("tools/dead_names.py")]
    used = {name for _, tree in modules for name in uses(tree)}
    defined = {each.name for path, tree in modules for each in definitions(path, tree)}
    return {name for name in KEPT | CALLED_BY_OTHERS if name in used or name not in defined}


@cache
def _modules(root: Path) -> list[tuple[Path, ast.Module]]:
    return [
        (path.relative_to(root), ast.parse(path.read_text()))
        for place in PROGRAMS
        for path in sorted((root / place).rglob("*.py")) or [root / place]
        if path.is_file() and "templates" not in path.parts
    ]


def _is_list(path: Path) -> bool:
    return "generated" in path.parts or any(part in path.as_posix() for part in KAFKAS_LISTS)


def main(root: Path) -> int:
    """Return 1 when there is a dead name, or one is allowed that need not be."""
    names, allowed = dead(root), sorted(needless(root))
    for each in names:
        print(f"{each.path}:{each.line}: nothing uses {each.name}")
    for name in allowed:
        print(f"tools/dead_names.py: {name} need not be allowed")
    return 1 if names or allowed else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent))
