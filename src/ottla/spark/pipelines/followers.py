"""How far the flows that follow a table have come, as their checkpoints tell.

A micro-batch that is in ``commits`` is not run again; its ``offsets`` name the version up to which
it has read each table. What cannot be understood has not been read.
"""

import json
from typing import Final

from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.hadoop_files import Directories
from ottla.spark.pipelines.model import Pipeline

NOTHING: Final = -1
_NO_OFFSET: Final = "-"
"""Spark's sign for a source that has not begun."""


class Followers:
    def __init__(self, pipeline: Pipeline, graph: Graph, files: Directories) -> None:
        self._pipeline = pipeline
        self._graph = graph
        self._files = files

    def read_by_all(self, dataset: str, table: str) -> int | None:
        """The version of a table that all followers of a dataset have read; None if nobody does."""
        followers = self._graph.followers(dataset)
        return min((self._read_up_to(flow.name, table) for flow in followers), default=None)

    def _read_up_to(self, flow: str, table: str) -> int:
        checkpoint = self._pipeline.address("checkpoints", flow)
        batches = [
            int(name) for name in self._files.names(f"{checkpoint}/commits") if name.isdecimal()
        ]
        if not batches:
            return NOTHING
        return read_up_to(self._files.read(f"{checkpoint}/offsets/{max(batches)}"), table)


def read_up_to(offsets: str, table: str) -> int:
    """A query may read a table twice: the version that both have read."""
    versions = []
    for line in offsets.splitlines():
        if line == _NO_OFFSET:
            return NOTHING
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict) and content.get("table") == table:
            versions.append(int(content["version"]))
    return min(versions, default=NOTHING)
