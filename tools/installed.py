"""The ottla that this interpreter has: a wheel's, compiled, or the one of a work tree."""

import sys
from pathlib import Path
from typing import Final

import ottla
from ottla.cli.version import compiled_modules

IMPORT_PATH: Final = str(Path(ottla.__file__).parents[1])
"""What a process needs in PYTHONPATH to run the same."""


def description() -> str:
    count = len(compiled_modules())
    kind = f"{count} modules compiled" if count else "nothing compiled"
    return f"ottla from {IMPORT_PATH}, {kind}, Python {sys.version.split()[0]}"
