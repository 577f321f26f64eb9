"""Changes of settings, and whether they may be made.

AlterConfigs replaces all settings of a resource, IncrementalAlterConfigs changes some; both end in
a set of new settings that is checked as a whole. Topics, groups and metrics subscriptions are
refused with INVALID_CONFIG, brokers with INVALID_REQUEST: as Kafka does it.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.common.errors import InvalidConfig, InvalidRequest
from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.definition import Key
from ottla.config.dynamic import check_transition
from ottla.config.group import GroupConfig, check_group
from ottla.config.kinds import Kind, text_of
from ottla.config.layers import Layers, broker_key, check_scopes
from ottla.config.topic import TopicConfig, check_topic


class Resource(IntEnum):
    """What settings may belong to, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one setting."""

    name: str
    operation: ConfigOperation
    value: str | None


_DELETED: Final = None


def apply_changes(
    resource: Resource, current: Mapping[str, str], changes: Iterable[Change]
) -> dict[str, str | None]:
    """The new value of each setting that is named; None for those that are removed."""
    changed: dict[str, str | None] = {}
    changes = list(changes)
    if len({change.name for change in changes}) != len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if missing:
        raise InvalidRequest(f"Null value not supported for : {', '.join(missing)}")
    for change in changes:
        match change.operation:
            case ConfigOperation.SET:
                changed[change.name] = change.value
            case ConfigOperation.DELETE:
                changed[change.name] = _DELETED
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                changed[change.name] = _changed_list(resource, current.get(change.name), change)
    return changed


def _changed_list(resource: Resource, current: str | None, change: Change) -> str:
    key = _key(resource, change.name)
    if key is None or key.kind is not Kind.LIST:
        raise _not_a_list(resource, key, change)
    before = (text_of(key.default_value) or "") if current is None else current
    items = [item for item in before.split(",") if item]
    for item in _split(change.value or ""):
        if change.operation is ConfigOperation.APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)


def _split(text: str) -> list[str]:
    """As Java splits: what is empty at the end is nothing, but an empty text is one item."""
    return text.rstrip(",").split(",") if text.rstrip(",") or not text else []


def _not_a_list(resource: Resource, key: Key[Any] | None, change: Change) -> InvalidConfig:
    operation = change.operation.name
    if resource is not Resource.BROKER:
        return InvalidConfig(
            f"Can't {operation} to key {change.name} because its type is not LIST."
        )
    if key is None:
        return InvalidConfig(f"Unknown config name: {change.name}")
    return InvalidConfig(
        f"Config value {operation.lower()} is not allowed for config key: {change.name}"
    )


def _key(resource: Resource, name: str) -> Key[Any] | None:
    match resource:
        case Resource.TOPIC:
            return TopicConfig.keys.get(name)
        case Resource.GROUP:
            return GroupConfig.keys.get(name)
        case Resource.CLIENT_METRICS:
            return ClientMetricsConfig.keys.get(name)
        case Resource.BROKER:
            return broker_key(name)
        case Resource.BROKER_LOGGER:
            return None


def merged(current: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    """The settings after a change."""
    result = dict(current)
    for name, value in changed.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def check_topic_settings(
    broker: BrokerConfig,
    settings: Mapping[str, str | None],
    existing: Mapping[str, str] | None = None,
) -> TopicConfig:
    """What a topic with exactly these settings would have; refused as CreateTopics refuses it.

    ``existing`` are those that it has now, if it is there already.
    """
    null = [name for name, value in settings.items() if value is None]
    if null:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(null)}")
    given = {name: value for name, value in settings.items() if value is not None}
    for name in given:
        if name not in TopicConfig.keys:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    config = TopicConfig.from_broker(broker, given)
    was_remote = (existing or {}).get("remote.storage.enable", "").lower() == "true"
    tiered = broker.remote_log_storage_system_enable
    check_topic(config, tiered=tiered, was_remote=was_remote)
    return config


def check_group_settings(broker: BrokerConfig, settings: Mapping[str, str]) -> GroupConfig:
    """What a group with exactly these settings would have."""
    for name in settings:
        if name not in GroupConfig.keys:
            raise InvalidConfig(f"Unknown group config name: {name}")
    config = GroupConfig.from_broker(broker, settings)
    check_group(config, broker)
    return config


def check_broker_settings(
    layers: Layers, settings: Mapping[str, str], *, per_broker: bool
) -> BrokerConfig:
    """What a broker would have if one of its dynamic layers were exactly these settings."""
    # What the metadata holds and this broker cannot use must not hinder its removal.
    usable, _ = layers.usable()
    proposed = usable._replace(**{"broker" if per_broker else "cluster": settings})
    try:
        check_scopes(settings, per_broker=per_broker)
        for name, value in settings.items():
            key = broker_key(name)
            if key is not None:
                key.parse(value)
        config = proposed.effective()
        check_transition(usable.effective(), config)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from None
    return config


def node_id_of(name: str, noun: str = "Node") -> int:
    """The node that a resource is named by, as Java reads numbers: without blanks."""
    if re.fullmatch(r"[+-]?\d+", name) is None or abs(int(name)) >= 1 << 31:
        raise InvalidRequest(f"{noun} id must be an integer, but it is: {name}")
    return int(name)


def check_broker_name(name: str, node_id: int) -> None:
    """Refuse to change another broker's settings: each broker answers for itself."""
    if name and node_id_of(name) != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")
