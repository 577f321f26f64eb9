"""The levels of this process's loggers, as a resource with settings (KIP-412).

They are not kept: a broker that starts again has the levels of its configuration. The topmost
logger is called ``root``, as in Kafka.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.common.errors import InvalidConfig, InvalidRequest
from ottla.config.changes import ConfigOperation, node_id_of
from ottla.observability import logging

ROOT: Final = "root"
LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def log_levels() -> dict[str, str]:
    """Each logger and the level that it has now."""
    known = logging.levels()
    return {ROOT: known.pop(logging.ROOT), **known}


def change_log_levels(
    node_id: int,
    name: str,
    changes: Iterable[tuple[str, int, str | None]],
    *,
    validate_only: bool,
) -> None:
    """Change the levels of some loggers: all of them, or none."""
    _check_node(name, node_id)
    changes = list(changes)
    known = log_levels()
    for logger, operation, level in changes:
        _check(logger, operation, level, known)
    if validate_only:
        return
    for logger, operation, level in changes:
        logging.set_level(
            logging.ROOT if logger == ROOT else logger,
            None if operation == ConfigOperation.DELETE else level,
        )


def _check_node(name: str, node_id: int) -> None:
    if node_id_of(name) != node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {node_id}, but received {name}")


def _check(logger: str, operation: int, level: str | None, known: Mapping[str, str]) -> None:
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise InvalidRequest(
            f"{ConfigOperation(operation).name} operation is not allowed "
            "for the BROKER_LOGGER resource"
        )
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise InvalidRequest(f"Unknown operations type {operation}")
    if logger not in known:
        raise InvalidConfig(f"Logger {logger} does not exist!")
    if operation == ConfigOperation.DELETE:
        if logger == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
    elif level not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}"
        )
