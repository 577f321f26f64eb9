"""Reading the settings of a node: a server.properties file, overrides, and KAFKA_ variables."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from ottla.config.environment import settings_from_environment
from ottla.config.properties import located_properties


def read_properties(path: str) -> dict[str, str]:
    """What a .properties file holds."""
    return {key: value for key, (value, _) in read_located_properties(path).items()}


def read_located_properties(path: str) -> dict[str, tuple[str, int]]:
    """Each key with its value and its line; Kafka reads Latin-1, people write UTF-8."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return located_properties(text)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None


def parse_assignments(items: Iterable[str], option: str) -> dict[str, str]:
    """``key=value`` arguments as a dictionary; the last one wins."""
    assignments: dict[str, str] = {}
    for place, item in enumerate(items, 1):
        key, separator, value = item.partition("=")
        if not separator or not key:
            # It may be a secret that is said in a wrong way: it is not shown again.
            raise click.UsageError(f"{option} takes key=value, and number {place} is not so")
        assignments[key] = value
    return assignments


def node_properties(
    path: str | None, overrides: Iterable[str], *, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings of a node: the file, then the environment if it is given, then overrides."""
    properties = {} if path is None else read_properties(path)
    if environment is not None:
        secret = settings_from_environment(environment, lambda name: Path(name).read_text("utf-8"))
        properties.update(secret)
    return {**properties, **parse_assignments(overrides, "--override")}


def process_environment() -> dict[str, str]:
    return dict(os.environ)
