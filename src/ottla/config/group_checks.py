"""Whether the settings of groups fit together: each within the bounds beside it."""

from typing import TYPE_CHECKING, Final

from ottla.common.errors import InvalidConfig

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_BOUNDED: Final = (
    "group.{}.{}heartbeat.interval.ms",
    "group.{}.{}session.timeout.ms",
    "group.{}.{}assignment.interval.ms",
)
_BOUNDED_SHARE: Final = (
    "group.share.{}record.lock.duration.ms",
    "group.share.{}delivery.count.limit",
    "group.share.{}partition.max.record.locks",
)
_ASSIGNORS: Final = {"consumer": ("uniform", "range"), "share": ("simple",)}


def check_groups(config: "BrokerConfig") -> None:
    """Raise :class:`InvalidConfig` for the first bound that is not kept."""
    for kind in ("consumer", "share", "streams"):
        for pattern in _BOUNDED:
            low, value, high = (pattern.format(kind, part) for part in ("min.", "", "max."))
            _at_least(config, high, low)
            _at_least(config, value, low)
            _at_most(config, value, high)
        _below(config, f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
    for pattern in _BOUNDED_SHARE:
        low, value, high = (pattern.format(part) for part in ("min.", "", "max."))
        _at_least(config, value, low)
        _at_least(config, high, value)
    _at_most(config, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
    for kind, known in _ASSIGNORS.items():
        for assignor in _names(config, f"group.{kind}.assignors"):
            if assignor not in known:
                raise InvalidConfig(f"Class {assignor} cannot be found")
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise InvalidConfig("Disabling the 'classic' protocol is not supported.")


def _number(config: "BrokerConfig", name: str) -> int:
    value = config.values[name]
    assert isinstance(value, int)
    return value


def _names(config: "BrokerConfig", name: str) -> tuple[str, ...]:
    value = config.values[name]
    assert isinstance(value, tuple)
    return value


def _at_least(config: "BrokerConfig", name: str, other: str) -> None:
    if _number(config, name) < _number(config, other):
        raise InvalidConfig(f"{name} must be greater than or equal to {other}")


def _at_most(config: "BrokerConfig", name: str, other: str) -> None:
    if _number(config, name) > _number(config, other):
        raise InvalidConfig(f"{name} must be less than or equal to {other}")


def _below(config: "BrokerConfig", name: str, other: str) -> None:
    if _number(config, name) >= _number(config, other):
        raise InvalidConfig(f"{name} must be less than {other}")
