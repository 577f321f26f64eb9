"""Spark finds this module by its name, and in it the source for ``format("ottla")``."""

from ottla.spark.datasource import OttlaDataSource


class DefaultSource(OttlaDataSource):
    """Under the name that Spark looks for."""
