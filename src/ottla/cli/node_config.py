"""The settings of a node as a whole, checked; what is wrong is said with the line that it is on."""

import re
from collections.abc import Mapping
from typing import Final

from ottla.cli.files import read_located_properties, read_properties
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.notices import did_you_mean, has_comment, notices, unknown_settings

_QUOTED_MIN: Final = 5
"""A value of so many characters does not stand in a text by chance."""


def config_of_file(path: str) -> BrokerConfig:
    """What a server.properties file says of its first process; InvalidConfig names the line."""
    return configs_of_file(path)[0]


def node_config(properties: Mapping[str, str], path: str | None = None) -> BrokerConfig:
    """``properties`` may hold more than the file at ``path``, or other values."""
    try:
        return BrokerConfig.from_properties(properties)
    except InvalidConfig as error:
        raise InvalidConfig(_explained(str(error), properties, path)) from None


def process_configs(properties: Mapping[str, str], path: str | None = None) -> list[BrokerConfig]:
    """One for each process of this machine; InvalidConfig names the line."""
    from ottla.cli.system import machine_name
    from ottla.config.processes import derive_processes

    try:
        every = derive_processes(properties, machine_name())
    except InvalidConfig as error:
        raise InvalidConfig(_explained(str(error), properties, path)) from None
    return [node_config(each, path) for each in every]


def configs_of_file(path: str) -> list[BrokerConfig]:
    """What a server.properties file says of each process."""
    return process_configs(read_properties(path), path)


def checked_config(
    properties: Mapping[str, str],
    written: Mapping[str, str] | None = None,
    path: str | None = None,
) -> BrokerConfig:
    """The settings as a whole; what a person should hear about those written is logged."""
    from ottla.observability.logging import logger

    config = node_config(properties, path)
    log = logger(__name__)
    for line in notices(properties if written is None else written, config):
        log.warning(line)
    return config


def _explained(reason: str, properties: Mapping[str, str], path: str | None) -> str:
    """Why settings are refused, where that stands, and what may have been meant."""
    if "broker.id" not in properties:
        reason = reason.replace("broker.id", "node.id")  # each stands for the other
    lines = [reason]
    located = {} if path is None else read_located_properties(path)
    named = [name for name in sorted(properties) if _concerns(reason, name, properties[name])]
    lines += [
        f"{path}, line {located[name][1]}: {name}={located[name][0]}"
        for name in named
        if name in located and located[name][0] == properties[name] and not _is_secret(name)
    ]
    if any(has_comment(properties[name]) for name in named):
        lines.append("a comment stands on a line of its own: behind a value it is part of it")
    for name in unknown_settings(properties):
        near = did_you_mean(name)
        if near is not None and near not in properties:
            lines.append(f"unknown setting {name}; did you mean {near}?")
    return "\n".join(lines)


def _concerns(reason: str, name: str, value: str) -> bool:
    """Whether a refusal names a setting or quotes it, or a comment in it may be the cause."""
    if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", reason) is not None:
        return True
    return has_comment(value) or (len(value) >= _QUOTED_MIN and value in reason)


def _is_secret(name: str) -> bool:
    key = BrokerConfig.keys.get(name)
    return key is not None and key.sensitive
