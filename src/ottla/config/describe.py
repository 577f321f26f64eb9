"""What DescribeConfigs answers: each setting with its value, and every place that says something of
it.

The entries are those of Apache Kafka 4.3.1: a setting's synonyms are listed from the strongest
layer to the weakest, and its source is that of the first. Passwords, and settings whose type is
unknown, are never shown.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.definition import ConfigSet, Key, Scope
from ottla.config.group import GroupConfig
from ottla.config.kinds import text_of
from ottla.config.layers import Layers, Source, broker_key, broker_synonyms, scope_of
from ottla.config.topic import SYNONYMS, TopicConfig


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """A setting as DescribeConfigs shows it; ``kind`` is 0 when the type is not known."""

    name: str
    value: str | None
    source: Source
    is_sensitive: bool
    read_only: bool
    kind: int
    documentation: str | None
    synonyms: tuple[Synonym, ...]


def describe_topic(
    layers: Layers,
    broker: BrokerConfig,
    overrides: Mapping[str, str],
    names: Collection[str] | None = None,
) -> list[Entry]:
    """The settings of a topic with these overrides; only ``names`` when they are given."""
    config = TopicConfig.from_broker(broker, overrides)

    def synonyms_of(name: str) -> list[Synonym]:
        return _broker_synonyms(layers, SYNONYMS[name][0]) if name in SYNONYMS else []

    return [
        _entry(config, config.keys[name], Source.TOPIC_CONFIG, synonyms_of(name))
        for name in _shown(config, names)
    ]


def describe_group(
    layers: Layers,
    broker: BrokerConfig,
    overrides: Mapping[str, str],
    names: Collection[str] | None = None,
) -> list[Entry]:
    """The settings of a group with these overrides; only ``names`` when they are given."""
    config = GroupConfig.from_broker(broker, overrides)

    def synonyms_of(name: str) -> list[Synonym]:
        if f"group.{name}" in BrokerConfig.keys:
            return _broker_synonyms(layers, f"group.{name}")
        default = text_of(GroupConfig.keys[name].default_value)
        return [Synonym(name, default, Source.DEFAULT_CONFIG)]

    return [
        _entry(config, config.keys[name], Source.GROUP_CONFIG, synonyms_of(name))
        for name in _shown(config, names)
    ]


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """The settings of a subscription to clients' metrics."""
    config = ClientMetricsConfig(overrides)
    return [
        _entry(config, config.keys[name], Source.CLIENT_METRICS_CONFIG, [])
        for name in _shown(config, names)
    ]


def describe_broker(
    layers: Layers, broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Entry]:
    """The settings of a broker, those that we do not know included."""
    shown = {name for name, key in BrokerConfig.keys.items() if not key.internal}
    shown.update(broker.originals)
    return [
        _broker_entry(broker, name, _broker_synonyms(layers, name))
        for name in sorted(shown)
        if names is None or name in names
    ]


def describe_cluster_defaults(
    layers: Layers, broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Entry]:
    """The settings that hold for all brokers: those that are set, and nothing else."""
    entries = []
    for name, value in sorted(layers.cluster.items()):
        if names is None or name in names:
            synonyms = [
                synonym
                for synonym in _broker_synonyms(layers, name)
                if synonym.source is Source.DYNAMIC_DEFAULT_BROKER_CONFIG
            ]
            entry = _broker_entry(broker, name, synonyms)
            entries.append(entry._replace(value=None if entry.is_sensitive else value))
    return entries


def _shown(config: ConfigSet, names: Collection[str] | None) -> list[str]:
    """Names to show: internal ones only when they are set."""
    return [
        name
        for name, key in config.keys.items()
        if (names is None or name in names) and (not key.internal or name in config.originals)
    ]


def _entry(config: ConfigSet, key: Key[Any], own: Source, inherited: list[Synonym]) -> Entry:
    value = None if key.sensitive else text_of(config.values[key.name])
    synonyms = inherited
    if key.name in config.originals:
        synonyms = [Synonym(key.name, value, own), *inherited]
    return Entry(
        key.name,
        value,
        synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        key.sensitive,
        read_only=False,
        kind=key.kind,
        documentation=key.doc,
        synonyms=tuple(synonyms),
    )


def _broker_entry(broker: BrokerConfig, name: str, synonyms: list[Synonym]) -> Entry:
    key = broker_key(name)
    sensitive = key is None or key.sensitive
    value = broker.originals.get(name)
    if name in broker.values:
        value = text_of(broker.values[name])
    return Entry(
        name,
        None if sensitive else value,
        synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        sensitive,
        read_only=name not in BrokerConfig.keys or scope_of(name) is Scope.READ_ONLY,
        kind=0 if key is None else key.kind,
        documentation=None if key is None else key.doc,
        synonyms=tuple(synonyms),
    )


def _broker_synonyms(layers: Layers, name: str) -> list[Synonym]:
    """Everything that is said of a broker's setting, from the strongest layer to the weakest."""
    key = broker_key(name)
    sensitive = key is None or key.sensitive
    found: list[Synonym] = []
    alike = broker_synonyms(name)
    for source, layer in (
        (Source.DYNAMIC_BROKER_CONFIG, layers.broker),
        (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, layers.cluster),
        (Source.STATIC_BROKER_CONFIG, layers.static),
        (Source.DEFAULT_CONFIG, _defaults(alike)),
    ):
        found += [
            Synonym(synonym, None if sensitive else layer[synonym], source)
            for synonym in alike
            if synonym in layer
        ]
    # What comes before the setting itself speaks of another one, such as log.retention.minutes.
    first = next((at for at, each in enumerate(found) if each.name == name), len(found))
    return found[first:]


def _defaults(names: list[str]) -> dict[str, str]:
    defaults: dict[str, str] = {}
    for name in names:
        key = BrokerConfig.keys.get(name)
        text = None if key is None else text_of(key.default_value)
        if text is not None:
            defaults[name] = text
    return defaults
