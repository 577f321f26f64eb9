"""Spark finds this module by its name, and in it how tables of pipelines are read.

Spark imports it whenever it looks for any source in Python, so it can be imported wherever PySpark
can; what is missing beside that is told when it is asked for.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

try:
    from ottla.spark.tables.datasource import TableDataSource
except ImportError as error:
    MISSING = f"{error}: run pip install 'ottla[spark]'"

    class DefaultSource(DataSource):
        """Says what to install."""

        def __init__(self, options: Any) -> None:  # noqa: ARG002
            raise ImportError(MISSING)

        @classmethod
        def name(cls) -> str:
            return "ottla_table"

else:

    class DefaultSource(TableDataSource):  # type: ignore[no-redef]
        """Under the name that Spark looks for."""
