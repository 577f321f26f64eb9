"""What a pipeline is made of: datasets, and flows that write to them.

A dataset is a streaming table (rows are added), a materialized view (the result of a query,
computed anew when its inputs change), a temporary view (a name for a query), a source (a stream
from outside, declared in ``pipeline.toml``), or a sink (a topic, most often).
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ottla.client.security import UNSECURED, ClientSecurity


class PipelineError(ValueError):
    """Something in the files of a pipeline is wrong; says where and what."""


class Place(NamedTuple):
    """Where something is defined."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Kind(Enum):
    TABLE = "streaming table"
    VIEW = "materialized view"
    TEMPORARY = "temporary view"
    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Options are those of a source's or sink's format, or the properties of a table."""

    name: str
    kind: Kind
    place: Place
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_by: tuple[str, ...] = ()
    schema: Any = None
    """A ``StructType``, or DDL; ``None``: as the query has it."""

    @property
    def is_stored(self) -> bool:
        return self.kind in {Kind.TABLE, Kind.VIEW}


@dataclass(frozen=True, slots=True)
class LatestState:
    """Keep the newest row of each key (``create_auto_cdc_flow``, type 1), by SQL expressions."""

    keys: tuple[str, ...]
    sequence_by: str
    deletes: str | None = None
    """The key goes where this holds."""
    columns: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """A query, in Python or SQL, whose rows go to its target."""

    name: str
    target: str
    query: Callable[[], Any] | str
    place: Place
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of Spark, while this flow runs."""
    latest: LatestState | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What ``pipeline.toml`` says, with its defaults."""

    name: str
    directory: Path
    storage: str
    libraries: tuple[Path, ...]
    bootstrap_servers: str = "localhost:9092"
    security: ClientSecurity = UNSECURED
    trigger_seconds: float = 1.0
    """How often a flow looks for new rows."""
    refresh_seconds: float = 1.0
    """A view is computed anew at most so often, and never more than half of the time."""
    static_refresh_seconds: float = 30.0
    """A flow that joins a stream with a table sees what is new in the table after so long."""
    keep_seconds: float = 600.0
    """Versions of tables that are no longer the newest stay so long, for their readers."""
    table_format: str = "parquet"
    table_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They may hold secrets of a store, as those of Spark may."""
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    datasets: tuple[Dataset, ...] = ()
    """Sources and sinks."""

    def path(self, *parts: str) -> str:
        """Below the storage, which is a directory or an address."""
        return "/".join((self.storage.rstrip("/"), *parts))

    def address(self, *parts: str) -> str:
        """The same for Spark, which takes a directory for one of its default file system."""
        path = self.path(*parts)
        return path if "://" in path else f"file://{path}"

    @property
    def state_directory(self) -> Path:
        """Always of this machine: where the state is told and the run is locked."""
        if "://" not in self.storage:
            return Path(self.storage)
        if self.storage.startswith("file://"):
            return Path(self.storage.removeprefix("file://"))
        return self.directory / ".ottla"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""
