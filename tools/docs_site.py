"""Puts all pages where mkdocs looks for them: ``build/docs``, as they lie in the repository.

One page is made here, out of the source: the packages, and which of them imports which.
``--requirement`` prints what makes the site, as ``pyproject.toml`` names it.
"""

import ast
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = PROJECT / "src" / "ottla"
SITE: Final = PROJECT / "build" / "docs"
PAGES: Final = ("*.md", "LICENSE", "docs/**/*.md", "examples/*")


def main() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    for pattern in PAGES:
        for page in PROJECT.glob(pattern):
            if page.is_file():
                target = SITE / page.relative_to(PROJECT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, target)
    (SITE / "docs" / "reference" / "packages.md").write_text(packages_page(), "utf-8")


def packages_page() -> str:
    """A row for each package: what it is, what it imports, and what imports it."""
    imports = {path.parent.name: imported(path.parent) for path in PACKAGE.glob("*/__init__.py")}
    lines = ["# Packages", "", "| package | what it is | imports | is imported by |"]
    lines.append("| --- | --- | --- | --- |")
    for name in sorted(imports):
        docstring = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text()))
        what = " ".join((docstring or "").partition("\n\n")[0].split())
        users = sorted(each for each in imports if name in imports[each])
        lines.append(f"| `{name}` | {what} | {_listed(imports[name])} | {_listed(users)} |")
    return "\n".join(lines) + "\n"


def imported(package: Path) -> list[str]:
    """The other packages of ours that the modules of one import."""
    names = {name for module in package.rglob("*.py") for name in _imports(module)}
    return sorted(names - {package.name})


def _imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ottla."):
            yield str(node.module).split(".")[1]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def requirement() -> str:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    (only,) = project["optional-dependencies"]["docs"]
    return str(only)


if __name__ == "__main__":
    if "--requirement" in sys.argv:
        print(requirement())
    else:
        main()
