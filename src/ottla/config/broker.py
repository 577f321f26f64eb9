"""The settings of a node: all that Apache Kafka 4.3.1 knows, and ``ottla.*``, typed.

``BrokerConfig.from_properties`` takes what a server.properties file holds. Settings that stand for
one another are worked out here, as Kafka's own KafkaConfig does; whether they fit together is
decided in :mod:`ottla.config.checks`.
"""

from collections.abc import Mapping
from typing import Self

from ottla.common.errors import InvalidConfig
from ottla.config.checks import check_node
from ottla.config.endpoints import parse_servers, parse_voters
from ottla.config.keys.cleaner import CleanerKeys
from ottla.config.keys.groups import GroupKeys
from ottla.config.keys.http import HttpKeys
from ottla.config.keys.log import LogKeys
from ottla.config.keys.metrics import MetricsKeys
from ottla.config.keys.network import NetworkKeys
from ottla.config.keys.node import NodeKeys
from ottla.config.keys.oauthbearer import OauthbearerKeys
from ottla.config.keys.processes import ProcessKeys
from ottla.config.keys.quorum import QuorumKeys
from ottla.config.keys.quotas import QuotaKeys
from ottla.config.keys.remote_storage import RemoteStorageKeys
from ottla.config.keys.remote_store import RemoteStoreKeys
from ottla.config.keys.replication import ReplicationKeys
from ottla.config.keys.sasl import SaslKeys
from ottla.config.keys.security import SecurityKeys
from ottla.config.keys.share_groups import ShareGroupKeys
from ottla.config.keys.ssl import SslKeys
from ottla.config.keys.streams_groups import StreamsGroupKeys
from ottla.config.keys.topics import TopicKeys
from ottla.config.keys.transactions import TransactionKeys
from ottla.config.keys.verification import VerificationKeys
from ottla.config.listeners import (
    Listener,
    effective_protocols,
    parse_counts,
    parse_http_listeners,
    parse_listeners,
)

HOUR_MS = 60 * 60 * 1000
MINUTE_MS = 60 * 1000


class BrokerConfig(
    NodeKeys,
    NetworkKeys,
    TopicKeys,
    LogKeys,
    CleanerKeys,
    ReplicationKeys,
    GroupKeys,
    ShareGroupKeys,
    StreamsGroupKeys,
    TransactionKeys,
    QuorumKeys,
    SecurityKeys,
    SslKeys,
    SaslKeys,
    OauthbearerKeys,
    QuotaKeys,
    RemoteStorageKeys,
    RemoteStoreKeys,
    MetricsKeys,
    VerificationKeys,
    ProcessKeys,
    HttpKeys,
):
    """What one node was told, with every default filled in."""

    protocols: Mapping[str, str]
    """Which security protocol each listener name stands for."""
    http_listeners: tuple[Listener, ...]
    """Where the node shows how it is (``ottla.http.listeners``)."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """The configuration of a node, checked as a whole; InvalidConfig says what is wrong."""
        config = cls(properties)
        check_node(config)
        return config

    def __init__(self, originals: Mapping[str, str]) -> None:
        super().__init__(_with_node_id(originals))
        self._resolve_times()
        self._resolve_directories()
        self._resolve_listeners()
        self.resolve(
            http_listeners=parse_http_listeners(self.ottla_http_listeners),
            max_connections_per_ip_overrides=parse_counts(
                "max.connections.per.ip.overrides", self._raw("max.connections.per.ip.overrides")
            ),
            controller_quorum_voters=parse_voters(
                "controller.quorum.voters", self._raw_list("controller.quorum.voters")
            ),
            controller_quorum_bootstrap_servers=parse_servers(
                "controller.quorum.bootstrap.servers",
                self._raw_list("controller.quorum.bootstrap.servers"),
            ),
        )

    def _resolve_times(self) -> None:
        retention = self._first_ms("log.retention.ms", self.log_retention_minutes)
        self.resolve(
            log_roll_ms=self._first_ms("log.roll.ms", None, self.log_roll_hours),
            log_roll_jitter_ms=self._first_ms(
                "log.roll.jitter.ms", None, self.log_roll_jitter_hours
            ),
            log_retention_ms=max(retention, -1),
        )
        if self.values["log.flush.interval.ms"] is None:
            self.resolve(log_flush_interval_ms=self.log_flush_scheduler_interval_ms)

    def _first_ms(self, name: str, minutes: int | None, hours: int | None = None) -> int:
        """The first of a setting in milliseconds, in minutes and in hours that is set."""
        value = self.values[name]
        if isinstance(value, int):
            return value
        if minutes is not None:
            return minutes * MINUTE_MS
        return (self.log_retention_hours if hours is None else hours) * HOUR_MS

    def _resolve_directories(self) -> None:
        directories = self._raw_list("log.dirs") or self.log_dir
        self.resolve(log_dirs=directories)
        if self.values["metadata.log.dir"] is None:
            self.resolve(metadata_log_dir=directories[0])
        if self.values["num.replica.alter.log.dirs.threads"] is None:
            self.resolve(num_replica_alter_log_dirs_threads=len(directories))

    def _resolve_listeners(self) -> None:
        protocols = effective_protocols(
            self.listener_security_protocol_map,
            explicit="listener.security.protocol.map" in self.originals,
            controller_names=self.controller_listener_names,
            listeners=self._raw_list("listeners"),
        )
        listeners = parse_listeners(self._raw_list("listeners"), protocols)
        advertised = self._raw_list("advertised.listeners")
        self.resolve(
            protocols=protocols,
            listeners=listeners,
            advertised_listeners=parse_listeners(advertised, protocols, distinct_ports=False)
            or listeners,
            early_start_listeners=self._raw_list("early.start.listeners")
            or self.controller_listener_names,
        )
        self._resolve_inter_broker_listener()
        for name in self.early_start_listeners:
            known = {*self.controller_listener_names, *(each.name for each in listeners)}
            if name.upper() not in map(str.upper, known):
                raise InvalidConfig(
                    f"early.start.listeners contains listener {name.upper()}, but this is not "
                    "contained in listeners or controller.listener.names"
                )

    def _resolve_inter_broker_listener(self) -> None:
        name = self.values["inter.broker.listener.name"]
        if not isinstance(name, str):
            self.resolve(inter_broker_listener_name=self.security_inter_broker_protocol)
            return
        if "security.inter.broker.protocol" in self.originals:
            raise InvalidConfig(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should "
                "be set."
            )
        if name.upper() not in self.protocols:
            raise InvalidConfig(
                f"Listener with name {name.upper()} defined in inter.broker.listener.name not "
                "found in listener.security.protocol.map."
            )
        self.resolve(inter_broker_listener_name=name.upper())

    def _raw(self, name: str) -> str:
        value = self.values[name]
        return value if isinstance(value, str) else ""

    def _raw_list(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return value if isinstance(value, tuple) else ()

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners that serve clients and other brokers."""
        names = self._controller_names()
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        names = self._controller_names()
        return tuple(listener for listener in self.listeners if listener.name in names)

    @property
    def advertised_broker_listeners(self) -> tuple[Listener, ...]:
        names = self._controller_names()
        return tuple(
            listener for listener in self.advertised_listeners if listener.name not in names
        )

    def _controller_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self.controller_listener_names)


def _with_node_id(originals: Mapping[str, str]) -> dict[str, str]:
    """Each of node.id and broker.id stands in for the other."""
    complete = dict(originals)
    if "node.id" not in complete and "broker.id" in complete:
        complete["node.id"] = complete["broker.id"]
    elif "broker.id" not in complete and "node.id" in complete:
        complete["broker.id"] = complete["node.id"]
    return complete
