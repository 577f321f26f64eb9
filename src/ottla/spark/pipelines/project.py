"""``pipeline.toml``: what a pipeline is called, where it keeps things, which files define it.

Unknown keys are refused: a setting that is silently without effect costs more than a refusal.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.security import UNSECURED, ClientSecurity, security_of
from ottla.common.errors import InvalidConfig
from ottla.config.properties import located_properties
from ottla.spark.pipelines.model import (
    Dataset,
    Kind,
    Pipeline,
    PipelineError,
    Place,
    did_you_mean,
)

FILE: Final = "pipeline.toml"
TABLE_FORMATS: Final = ("parquet", "iceberg", "delta")
KEYS: Final = (
    "name",
    "storage",
    "libraries",
    "bootstrap_servers",
    "client_config",
    "trigger",
    "refresh",
    "static_refresh",
    "tables",
    "spark",
    "sources",
    "sinks",
)
TABLE_KEYS: Final = ("format", "options", "keep")
_SECONDS: Final = {"ms": 0.001, "s": 1, "second": 1, "seconds": 1, "m": 60, "minute": 60}
_SECONDS_MORE: Final = {"minutes": 60, "h": 3600, "hour": 3600, "hours": 3600}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def load(directory: Path) -> Pipeline:
    """The pipeline of a directory, or of the file itself."""
    file = directory if directory.is_file() else directory / FILE
    if not file.exists():
        raise PipelineError(f"there is no {file}; `ottla pipeline init {directory}` makes one")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{file}: {error}") from None
    return parse(content, file)


def parse(content: Mapping[str, Any], file: Path) -> Pipeline:
    reader = _Reader(file)
    reader.known(content, KEYS, "")
    tables = reader.table(content, "tables")
    reader.known(tables, TABLE_KEYS, "tables.")
    directory = file.parent.resolve()
    name = reader.text(content, "name", directory.name)
    if not _NAME.fullmatch(name):
        raise PipelineError(f"{file}: name: letters, digits, _ and - make a name, not {name!r}")
    table_format = reader.text(tables, "format", "parquet")
    if table_format not in TABLE_FORMATS:
        known = ", ".join(TABLE_FORMATS)
        meant = did_you_mean(table_format, TABLE_FORMATS)
        raise PipelineError(f"{file}: tables.format: expected {known}, got {table_format!r}{meant}")
    return Pipeline(
        name=name,
        directory=directory,
        storage=_absolute(reader.text(content, "storage", "storage"), directory),
        libraries=_libraries(reader, content, directory),
        bootstrap_servers=reader.text(content, "bootstrap_servers", "localhost:9092"),
        security=_security(reader, content, directory),
        trigger_seconds=reader.seconds(content, "trigger", "1 second"),
        refresh_seconds=reader.seconds(content, "refresh", "1 second"),
        static_refresh_seconds=reader.seconds(content, "static_refresh", "30 seconds"),
        keep_seconds=reader.seconds(tables, "keep", "10 minutes"),
        table_format=table_format,
        table_options=reader.texts(tables, "options"),
        spark=reader.texts(content, "spark"),
        datasets=(
            *_outside(reader, content, "sources", Kind.SOURCE),
            *_outside(reader, content, "sinks", Kind.SINK),
        ),
    )


def _security(reader: "_Reader", content: Mapping[str, Any], directory: Path) -> ClientSecurity:
    """By a file of settings that is named, so that secrets need not stand beside the code."""
    if "client_config" not in content:
        return UNSECURED
    name = reader.text(content, "client_config", "")
    try:
        return client_security(directory / name)
    except PipelineError as error:
        raise PipelineError(f"{reader.file}: client_config: {error}") from None


def client_security(file: Path) -> ClientSecurity:
    """What a file of a client's settings says of security."""
    try:
        found = located_properties(file.read_text(encoding="utf-8"))
        return security_of({name: value for name, (value, _) in found.items()})
    except OSError as error:
        raise PipelineError(f"{file} cannot be read: {error.strerror}") from None
    except (InvalidConfig, ValueError) as error:
        raise PipelineError(f"{file}: {error}") from None


def _absolute(storage: str, directory: Path) -> str:
    return storage if "://" in storage else str(directory / storage)


def _libraries(reader: "_Reader", content: Mapping[str, Any], directory: Path) -> tuple[Path, ...]:
    """All files that the patterns name, in the order of patterns and names."""
    patterns = content.get("libraries", ["transformations/**"])
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise PipelineError(f"{reader.file}: libraries: expected a list of file names or patterns")
    found: dict[Path, None] = {}
    for pattern in patterns:
        glob = f"{pattern}/*" if pattern.endswith("**") else pattern
        files = [
            path
            for path in sorted(directory.glob(glob))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        if not files:
            raise PipelineError(f"{reader.file}: libraries: no file is named by {pattern!r}")
        for path in files:
            if path.suffix not in {".py", ".sql"}:
                raise PipelineError(f"{reader.file}: libraries: {path} is neither .py nor .sql")
            found[path] = None
    return tuple(found)


def _outside(
    reader: "_Reader", content: Mapping[str, Any], section: str, kind: Kind
) -> list[Dataset]:
    made = []
    for name, value in reader.table(content, section).items():
        options = reader.texts({name: value}, name, f"{section}.")
        made.append(
            Dataset(
                name=name,
                kind=kind,
                place=Place(str(reader.file)),
                format=options.pop("format", "ottla"),
                options=options,
            )
        )
    return made


class _Reader:
    """Takes values out of the file, each of its kind."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def known(self, content: Mapping[str, Any], names: tuple[str, ...], prefix: str) -> None:
        for name in content:
            if name not in names:
                meant = did_you_mean(name, names)
                raise PipelineError(f"{self.file}: {prefix}{name} is unknown{meant}")

    def text(self, content: Mapping[str, Any], name: str, default: str) -> str:
        value = content.get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise PipelineError(f"{self.file}: {name}: expected a text, got {value!r}")
        return value.strip()

    def table(self, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = content.get(name, {})
        if not isinstance(value, dict):
            raise PipelineError(f"{self.file}: {name}: expected a table [{name}], got {value!r}")
        return value

    def texts(self, content: Mapping[str, Any], name: str, prefix: str = "") -> dict[str, str]:
        """A table of texts; numbers and truths are taken as they are written."""
        made = {}
        for key, value in self.table(content, name).items():
            if isinstance(value, bool):
                made[key] = str(value).lower()
            elif isinstance(value, str | int | float):
                made[key] = str(value)
            else:
                hint = f'; write "{key}.{next(iter(value))}" = ...' if _is_nested(value) else ""
                raise PipelineError(f"{self.file}: {prefix}{name}.{key}: expected a text{hint}")
        return made

    def seconds(self, content: Mapping[str, Any], name: str, default: str) -> float:
        text = self.text(content, name, default)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower())
        unit = {**_SECONDS, **_SECONDS_MORE}.get(match[2]) if match else None
        if match is None or unit is None:
            raise PipelineError(f"{self.file}: {name}: expected '5 seconds' or so, got {text!r}")
        return float(match[1]) * unit


def _is_nested(value: object) -> bool:
    """A name with dots that was written without quotes."""
    return isinstance(value, dict) and bool(value)
