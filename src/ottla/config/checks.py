"""Whether the settings of a node fit together; asked once, when the node starts.

The rules and their wording are those of Kafka's KafkaConfig. One is looser here: a listener may be
on 0.0.0.0 although no advertised.listeners are set, since clients are then told the address that
they dialled.
"""

import re
from typing import TYPE_CHECKING, Final

from ottla.common.errors import InvalidConfig
from ottla.config.group_checks import check_groups
from ottla.config.metadata_topic import check_metadata_topic

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_CODECS: Final = range(5)
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*", re.ASCII)


def check_node(config: "BrokerConfig") -> None:
    """Raise :class:`InvalidConfig` for the first thing that does not fit."""
    _require(
        config.node_id == config.broker_id,
        "You must set `node.id` to the same value as `broker.id`.",
    )
    _check_log(config)
    _check_replication(config)
    _check_quorum(config)
    _check_controller_listeners(config)
    if config.is_broker:
        _check_broker_listeners(config)
    _check_advertised(config)
    _check_connections(config)
    _check_internal_topics(config)
    check_groups(config)
    if config.remote_log_storage_system_enable:
        check_metadata_topic(config)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvalidConfig(otherwise)


def _check_log(config: "BrokerConfig") -> None:
    _require(config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(
        config.log_roll_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0"
    )
    _require(
        config.log_retention_ms != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        config.log_cleaner_dedupe_buffer_size // max(config.log_cleaner_threads, 1) > 1 << 20,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    cordoned = config.cordoned_log_dirs
    if "*" in cordoned:
        _require(
            len(cordoned) == 1,
            "When cordoned.log.dirs is set to *, it must not contain other values",
        )
        return
    missing = [directory for directory in cordoned if directory not in config.log_dirs]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )


def _check_replication(config: "BrokerConfig") -> None:
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent "
        "unnecessary socket timeouts",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
        "to prevent frequent changes in ISR",
    )


def _check_quorum(config: "BrokerConfig") -> None:
    voters = [voter.node_id for voter in config.controller_quorum_voters]
    _require(
        bool(voters or config.controller_quorum_bootstrap_servers),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set "
        "of bootstrap controllers or controller.quorum.voters must contain a parseable set of "
        "controllers.",
    )
    shown = ", ".join(map(str, dict.fromkeys(voters)))
    if config.is_controller:
        _require(
            not voters or config.node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must "
            f"be included in the set of voters controller.quorum.voters=Set({shown})",
        )
    else:
        _require(
            config.node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must "
            f"not be included in the set of voters controller.quorum.voters=Set({shown})",
        )


def _check_controller_listeners(config: "BrokerConfig") -> None:
    if not config.is_controller:
        _require(
            not config.controller_listeners,
            "controller.listener.names must not contain a value appearing in the 'listeners' "
            "configuration when running KRaft with just the broker role",
        )
        for name in config.controller_listener_names:
            _require(
                name.upper() in config.protocols,
                f"Controller listener with name {name.upper()} defined in "
                "controller.listener.names not found in listener.security.protocol.map  (an "
                "explicit security mapping for each controller listener is required if "
                "listener.security.protocol.map is non-empty, or if there are security protocols "
                "other than PLAINTEXT in use)",
            )
        return
    _require(
        config.is_broker or len(config.controller_listeners) == len(config.listeners),
        "The listeners config must only contain KRaft controller listeners from "
        "controller.listener.names when process.roles=controller",
    )
    names = {listener.name for listener in config.listeners}
    _require(
        all(name.upper() in names for name in config.controller_listener_names),
        "controller.listener.names must only contain values appearing in the 'listeners' "
        "configuration when running the KRaft controller role",
    )


def _check_broker_listeners(config: "BrokerConfig") -> None:
    advertised = {listener.name for listener in config.advertised_broker_listeners}
    _require(
        bool(advertised),
        "There must be at least one broker advertised listener. Perhaps all listeners appear in "
        "controller.listener.names?",
    )
    _require(
        config.inter_broker_listener_name.upper() in advertised,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The "
        "valid options based on currently configured listeners are "
        f"{','.join(sorted(advertised))}",
    )
    names = {listener.name for listener in config.listeners}
    _require(
        advertised <= names,
        "advertised.listeners listener names must be equal to or a subset of the ones defined in "
        f"listeners. Found {','.join(sorted(advertised))}. The valid options based on the current "
        f"configuration are {','.join(sorted(names))}",
    )


def _check_advertised(config: "BrokerConfig") -> None:
    if config.values["advertised.listeners"] is None:
        return
    _require(
        all(listener.host != "0.0.0.0" for listener in config.advertised_listeners),  # noqa: S104
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP "
        "address.",
    )


def _check_connections(config: "BrokerConfig") -> None:
    _require(
        config.queued_max_request_bytes <= 0
        or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = config.max_connections_per_ip_overrides
    _require(
        config.max_connections_per_ip != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
        "property is set.",
    )
    invalid = [host for host in overrides if _HOST.fullmatch(host) is None]
    _require(
        not invalid,
        f"max.connections.per.ip.overrides contains invalid addresses : {','.join(invalid)}",
    )
    delay, idle = config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than "
        f"connections.max.idle.ms={idle} to prevent failed authentication responses from timing "
        "out",
    )


def _check_internal_topics(config: "BrokerConfig") -> None:
    for codec in (
        config.offsets_topic_compression_codec,
        config.share_coordinator_state_topic_compression_codec,
    ):
        _require(codec in _CODECS, f"Unknown compression type id: {codec}")
