"""Spark finds this module by its name, and in it the source and sink for ``format("ottla")``.

Spark imports it whenever it looks for any source in Python. So it can be imported wherever PySpark
can: what is missing beside that is told when ``ottla`` is asked for, and only then.
"""

from importlib.util import find_spec
from typing import Any

from pyspark.sql.datasource import DataSource

NEEDED = ("numba", "numpy", "pyarrow")
"""Looked for only, since Spark imports this often; they are imported where something is read."""

try:
    for name in NEEDED:
        if find_spec(name) is None:
            raise ImportError(f"No module named {name!r}")
    from ottla.spark.datasource import OttlaDataSource
except ImportError as error:
    MISSING = f"{error}: run pip install 'ottla[spark]'"

    class DefaultSource(DataSource):
        """Says what to install."""

        def __init__(self, options: Any) -> None:  # noqa: ARG002
            raise ImportError(MISSING)

        @classmethod
        def name(cls) -> str:
            return "ottla"

else:

    class DefaultSource(OttlaDataSource):  # type: ignore[no-redef]
        """Under the name that Spark looks for."""
