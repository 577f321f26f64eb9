"""Figures are of what ships: the wheel as it is installed, never of a work tree."""

import sys
from pathlib import Path

from tools.installed import IMPORT_PATH, description


def refuse_work_tree() -> None:
    """Say what is measured; end when that is no installed wheel."""
    if Path(IMPORT_PATH).name != "site-packages":
        sys.exit(
            f"{description()}: this is a work tree. Benchmarks run the installed wheel: "
            "use `make bench`, and leave PYTHONPATH unset"
        )
    print(description(), file=sys.stderr, flush=True)
