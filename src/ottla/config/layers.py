"""Which value wins: default < file < cluster-wide < per-broker, and for a topic its own before all.

The file is read once. The two dynamic layers are kept in the cluster's metadata; a change of one
makes new :class:`Layers` and from them a new :class:`BrokerConfig`.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.definition import Key, Scope
from ottla.config.keys.quotas import ThrottleKeys

_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MECHANISM_KEYS: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
)
"""Keys that stand behind a mechanism: listener.name.<listener>.<mechanism>.<key>."""
_STORE_KEY: Final = re.compile(r"ssl\.(key\.password|(keystore|truststore)\..*)")
"""Keys that can change only for one listener."""
_CLUSTER_WIDE_LISTENER_KEYS: Final = (
    "max.connection.creation.rate",
    "max.connections",
    "num.network.threads",
)
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class Source(IntEnum):
    """Where a value comes from, with the number that it has in a DescribeConfigs answer."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Layers(NamedTuple):
    """The settings of one broker by their origin."""

    static: Mapping[str, str]
    cluster: Mapping[str, str] = {}
    broker: Mapping[str, str] = {}

    def merged(self) -> dict[str, str]:
        """One dictionary, in which a dynamic value also hides what stands for the same thing."""
        merged = dict(self.static)
        for layer in (self.cluster, self.broker):
            for name, value in layer.items():
                for synonym in broker_synonyms(name):
                    merged.pop(synonym, None)
                merged[name] = value
        return merged

    def effective(self) -> BrokerConfig:
        return BrokerConfig.from_properties(self.merged())

    def usable(self) -> tuple["Layers", list[str]]:
        """These without dynamic settings that cannot be used, and why those are left out.

        One by itself may be wrong; and what fits the file of the broker that let it pass need not
        fit this one's.
        """
        cluster, reasons = without_invalid(self.cluster, per_broker=False)
        broker, more = without_invalid(self.broker, per_broker=True)
        layers = self._replace(cluster=cluster, broker=broker)
        reasons += more
        try:
            layers.effective()
        except InvalidConfig:
            return layers.fitting(reasons), reasons
        return layers, reasons

    def fitting(self, reasons: list[str]) -> "Layers":
        """What fits together, setting by setting; the reasons against the others are added."""
        kept = Layers(self.static)
        for name, value in self.cluster.items():
            trial = kept._replace(cluster={**kept.cluster, name: value})
            kept = trial if trial.fits(name, reasons) else kept
        for name, value in self.broker.items():
            trial = kept._replace(broker={**kept.broker, name: value})
            kept = trial if trial.fits(name, reasons) else kept
        return kept

    def fits(self, name: str, reasons: list[str]) -> bool:
        try:
            self.effective()
        except InvalidConfig as error:
            reasons.append(f"{name}: {error}")
            return False
        return True


def broker_key(name: str) -> Key[Any] | None:
    """The key of a broker's setting, also behind a listener's prefix; None when it is unknown."""
    key = BrokerConfig.keys.get(name) or ThrottleKeys.keys.get(name)
    match = _LISTENER_KEY.fullmatch(name)
    if key is not None or match is None:
        return key
    return BrokerConfig.keys.get(_without_mechanism(match[1]))


def broker_synonyms(name: str, *, listener: bool = True) -> list[str]:
    """Names that stand for the same thing, the strongest first."""
    for family in _FAMILIES:
        if name in family:
            return list(family)
    if name == "log.flush.interval.ms":
        return [name, "log.flush.scheduler.interval.ms"]
    match = _LISTENER_KEY.fullmatch(name)
    if match is not None and listener:
        return [name, _without_mechanism(match[1])]
    return [name]


def _without_mechanism(name: str) -> str:
    return next((key for key in _MECHANISM_KEYS if name.endswith(key)), name)


def scope_of(name: str) -> Scope:
    """Where a setting may be changed; unknown ones anywhere, as in Kafka."""
    match = _LISTENER_KEY.fullmatch(name)
    if match is not None:
        inner = _without_mechanism(match[1])
        key = BrokerConfig.keys.get(inner)
        if key is None or inner in _CLUSTER_WIDE_LISTENER_KEYS:
            return Scope.CLUSTER_WIDE
        return Scope.PER_BROKER
    key = broker_key(name)
    return Scope.CLUSTER_WIDE if key is None else key.scope


def check_scopes(names: Iterable[str], *, per_broker: bool) -> None:
    """Refuse settings that cannot change while brokers run, or not for all brokers at once."""
    names = sorted(names)
    _refuse(
        "Cannot update these configs dynamically",
        [name for name in names if scope_of(name) is Scope.READ_ONLY],
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        [name for name in names if _STORE_KEY.fullmatch(name)],
    )
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in names if scope_of(name) is Scope.PER_BROKER],
        )


def _refuse(reason: str, names: list[str]) -> None:
    if names:
        raise InvalidConfig(f"{reason}: [{', '.join(names)}]")


def without_invalid(
    properties: Mapping[str, str], *, per_broker: bool
) -> tuple[dict[str, str], list[str]]:
    """A dynamic layer without what cannot be used, and why that was left out.

    The metadata may hold what this broker would refuse; a broker must start nevertheless.
    """
    kept: dict[str, str] = {}
    reasons: list[str] = []
    for name, value in properties.items():
        try:
            check_scopes([name], per_broker=per_broker)
            key = broker_key(name)
            if key is not None:
                key.parse(value)
        except InvalidConfig as error:
            reasons.append(str(error))
        else:
            kept[name] = value
    return kept, reasons
