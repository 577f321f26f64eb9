"""Pipelines to begin with, which ``ottla pipeline init`` writes into a new directory."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.model import PipelineError

ADDRESS: Final = "localhost:9092"
DIRECTORY: Final = "@DIRECTORY@"


def write(
    directory: Path,
    template: str = "minimal",
    bootstrap: str = ADDRESS,
    *,
    in_sql: bool = False,
    name: str | None = None,
) -> list[Path]:
    """The files that were written; none of them may be there already.

    The pipeline is called ``name``, or as the template is.
    """
    source = files(__package__).joinpath("templates", f"{template}_sql" if in_sql else template)
    if not source.is_dir():
        raise PipelineError(f"there is no template {template}{' in SQL' if in_sql else ''}")
    said = {
        ADDRESS: bootstrap,
        DIRECTORY: str(directory.resolve()),
        f'name = "{template}"': f'name = "{name or template}"',
        f"name: {template}\n": f"name: {name or template}\n",
    }
    made = {}
    for place, text in _texts(source, Path()):
        for old, new in said.items():
            text = text.replace(old, new)
        made[directory / place] = text
    for path in made:
        if path.exists():
            raise PipelineError(f"{path} exists already; nothing was written")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(made)


def name_of(directory: Path) -> str | None:
    """What a pipeline there is called, of letters, digits, _ and -; None if nothing is left."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", directory.resolve().name).strip("-")
    return f"_{name}" if name[:1].isdecimal() else name or None


def _texts(folder: Traversable, below: Path) -> list[tuple[Path, str]]:
    found = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found += _texts(each, below / each.name)
        elif each.is_file():
            found.append((below / each.name, each.read_text(encoding="utf-8")))
    return found
