"""Puts all pages where mkdocs looks for them: ``build/docs``, as they lie in the repository.

``--requirement`` prints what makes the site, as ``pyproject.toml`` names it.
"""

import shutil
import sys
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
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


def requirement() -> str:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    (only,) = project["optional-dependencies"]["docs"]
    return str(only)


if __name__ == "__main__":
    if "--requirement" in sys.argv:
        print(requirement())
    else:
        main()
