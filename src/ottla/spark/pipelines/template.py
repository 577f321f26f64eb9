"""Pipelines to begin with, which ``ottla pipeline init`` writes into a new directory."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.model import PipelineError

TEMPLATES: Final = ("minimal", "shop")
ADDRESS: Final = "localhost:9092"
DIRECTORY: Final = "@DIRECTORY@"


def write(
    directory: Path, template: str = "minimal", bootstrap: str = ADDRESS, *, in_sql: bool = False
) -> list[Path]:
    """The files that were written; none of them may be there already."""
    source = files(__package__).joinpath("templates", f"{template}_sql" if in_sql else template)
    if not source.is_dir():
        raise PipelineError(f"there is no template {template}{' in SQL' if in_sql else ''}")
    made = {
        directory / place: text.replace(ADDRESS, bootstrap).replace(
            DIRECTORY, str(directory.resolve())
        )
        for place, text in _texts(source, Path())
    }
    for path in made:
        if path.exists():
            raise PipelineError(f"{path} exists already; nothing was written")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(made)


def _texts(folder: Traversable, below: Path) -> list[tuple[Path, str]]:
    found = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found += _texts(each, below / each.name)
        elif each.is_file():
            found.append((below / each.name, each.read_text(encoding="utf-8")))
    return found
