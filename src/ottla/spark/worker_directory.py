"""Where Spark's Python workers begin, so that they begin quickly.

Spark puts PySpark as a zip before everything else on the path of its workers, and Python compiles
what it imports from a zip each time anew: nearly a second for every process, and there is one for
each stream and each step of planning. A module that is run by name is looked for in the working
directory first, which workers have from the JVM: so this starts the JVM in a directory with links
to the installed PySpark. Relative paths in settings of Spark are relative to that directory then.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Final

PACKAGES: Final = ("py4j", "pyspark")


@contextmanager
def quick_workers(directory: Path) -> Iterator[None]:
    """Start the session within this block; ``directory`` is made, and must outlive the session."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        assert found is not None, f"{name} comes with pyspark"
        assert found.origin is not None
        link = directory / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path(found.origin).resolve().parent)
    with chdir(directory):
        yield
