"""What a person should hear about a node's settings before it starts: typing errors above all."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.config.authorizer import ALLOW_EVERYONE, SUPER_USERS
from ottla.config.broker import BrokerConfig
from ottla.config.effective import EFFECTIVE, LISTENER_SETTINGS
from ottla.config.kinds import Kind
from ottla.config.layers import broker_key
from ottla.config.metadata_topic import METADATA_TOPIC_SETTINGS

FOREIGN: Final = (
    "rsm.config.",
    "rlmm.config.",
    "config.providers.",
    SUPER_USERS,
    ALLOW_EVERYONE,
)
"""Settings that are meant for what is plugged into a broker, so that no broker knows them."""
_COMMENT: Final = re.compile(r"(^|\s)#")


def unknown_settings(names: Iterable[str]) -> list[str]:
    return sorted(
        name for name in names if broker_key(name) is None and not name.startswith(FOREIGN)
    )


def did_you_mean(name: str) -> str | None:
    """The known setting that looks most like ``name``, if any comes near."""
    import difflib

    close = difflib.get_close_matches(name, BrokerConfig.keys, n=1, cutoff=0.75)
    return close[0] if close else None


def has_comment(value: str) -> bool:
    """Whether something in a value looks like a comment, which there is none of behind values."""
    return _COMMENT.search(value) is not None


def _comments(properties: Mapping[str, str]) -> list[str]:
    """Values that take in what was meant as a comment; those of passwords may be so."""
    lines = []
    for name, value in sorted(properties.items()):
        key = broker_key(name)
        if has_comment(value) and (key is None or key.kind is not Kind.PASSWORD):
            lines.append(f"the value of {name} is {value!r}: comments stand on lines of their own")
    return lines


def _is_of_listener(name: str) -> bool:
    """Whether it has the prefix of a listener, and an effect there."""
    key = broker_key(name)
    return key is not None and key.name != name and key.name in LISTENER_SETTINGS


def notices(properties: Mapping[str, str], config: BrokerConfig) -> list[str]:
    """Lines for a person: unknown settings, settings without effect, doubtful combinations."""
    lines = _comments(properties)
    for name in unknown_settings(properties):
        near = did_you_mean(name)
        question = f"; did you mean {near}?" if near else ""
        lines.append(f"unknown setting {name} is ignored{question}")
    prefix = f"{config.remote_log_metadata_manager_impl_prefix}remote.log.metadata."
    effective = EFFECTIVE.union(prefix + name for name in METADATA_TOPIC_SETTINGS)
    if config.authorizer_class_name:
        effective |= {SUPER_USERS, ALLOW_EVERYONE}
    idle = sorted(
        name
        for name in properties
        if name not in effective
        and name not in unknown_settings([name])
        and not _is_of_listener(name)
    )
    if idle:
        lines.append(f"accepted, without effect here: {', '.join(idle)}")
    if "sasl.jaas.config" in properties:
        lines.append(
            "sasl.jaas.config has an effect only as "
            "listener.name.<listener>.<mechanism>.sasl.jaas.config"
        )
    session, heartbeat = config.broker_session_timeout_ms, config.broker_heartbeat_interval_ms
    if heartbeat > session // 2:
        lines.append(
            f"broker.heartbeat.interval.ms ({heartbeat} ms) must be less than or equal to half of "
            f"the broker.session.timeout.ms ({session} ms)"
        )
    return lines
