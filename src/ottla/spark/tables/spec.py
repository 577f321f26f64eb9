"""What a table is called, of which format it is, and where its files lie."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.spark.tables.errors import BadTable

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

SOURCE: Final = "ottla_table"
"""What Spark calls the source that reads tables; found in the module ``pyspark_ottla_table``."""
STORE_OPTIONS: Final = (
    "endpoint",
    "region",
    "access.key.id",
    "secret.access.key",
    "allow.http",
)
"""Of an object store; what is not set comes from the environment, as each cloud has it."""
CATALOG: Final = "catalog."
"""Iceberg: what follows goes to pyiceberg, such as ``catalog.type`` and ``catalog.uri``."""
CODEC: Final = "codec"
CODECS: Final = ("zstd", "snappy", "lz4", "gzip", "none")


@dataclass(frozen=True)
class TableSpec:
    """``location`` is a directory, or an address: ``file://``, ``s3://``, ``gs://``, ``az://``."""

    name: str
    format: str
    location: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise BadTable(
                f"table {self.name}: format is {self.format!r}, expected {', '.join(FORMATS)}"
            )
        if not self.name or not self.location:
            raise BadTable(f"a table needs a name and a location, got {self}")
        for name in self.options:
            self._check_option(name)
        if self.codec not in CODECS:
            raise BadTable(f"table {self.name}: codec is {self.codec!r}, not {', '.join(CODECS)}")

    def _check_option(self, name: str) -> None:
        known = [*STORE_OPTIONS, CODEC]
        if self.format == ICEBERG:
            if name.startswith(CATALOG):
                return
            known += ["catalog.type", "catalog.uri"]
        if name not in known:
            close = difflib.get_close_matches(name, known, 1, 0.6)
            meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise BadTable(f"table {self.name}: option {name} is unknown; {meant}")

    def as_options(self) -> dict[str, str]:
        """For Spark, which carries text only; secrets under names that it does not show."""
        return {
            "name": self.name,
            "format": self.format,
            "location": self.location,
            "partitionBy": json.dumps(self.partition_by),
            **{f"option.{name}": value for name, value in self.options.items()},
        }

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "TableSpec":
        missing = [name for name in ("name", "format", "location") if name not in options]
        if missing:
            raise BadTable(f"a table is named by the options name, format and location: {missing}")
        own = {name.lower(): value for name, value in options.items()}
        return cls(
            own["name"],
            own["format"],
            own["location"],
            tuple(json.loads(own.get("partitionby", "[]"))),
            {
                name.removeprefix("option."): value
                for name, value in own.items()
                if name.startswith("option.")
            },
        )

    @property
    def codec(self) -> str:
        return self.options.get(CODEC, "zstd")

    @property
    def catalog(self) -> dict[str, str]:
        """What was said of an Iceberg catalog; nothing for one that is the location itself."""
        return {
            name.removeprefix(CATALOG): value
            for name, value in self.options.items()
            if name.startswith(CATALOG)
        }
