"""Several nodes on this machine, laid out as one cluster: ids, ports, directories, settings.

Both `ottla dev -n 3` and the clusters of tests are made of it. The voters stand in the settings of
each node, so that directories can be used again with other ports; or, in a dynamic quorum, in the
directories of the controllers.
"""

import contextlib
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.config.broker import BrokerConfig
from ottla.server.format import format_storage
from ottla.server.local_security import LocalSecurity
from ottla.storage.checkpoints import META_PROPERTIES, MetaProperties
from ottla.storage.files import OsFilesystem

REPLICAS_MAX: Final = 3
HOST: Final = "127.0.0.1"
DATA: Final = "data"
_ANYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000


class NodePlace(NamedTuple):
    """A node and where it listens. Advertised ports are other ones when something is between."""

    node_id: int
    directory: Path
    port: int | None = None
    """For clients; None when it is no broker."""
    controller_port: int | None = None
    """None when it is no controller."""
    internal_port: int | None = None
    """For other brokers; None when they come by the clients' port."""
    rack: str | None = None
    host: str | None = None
    """None when it is that of the cluster."""

    @property
    def data(self) -> str:
        return str(self.directory / DATA)


def replicated_properties(brokers: int) -> dict[str, str]:
    """Topics have three replicas where there are three brokers, and writes wait for two."""
    replicas = min(brokers, REPLICAS_MAX)
    in_sync = str(max(1, replicas - 1))
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": in_sync,
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "group.initial.rebalance.delay.ms": "0",
    }


class LocalCluster:
    """The settings of each node; :meth:`format` prepares the directories."""

    def __init__(
        self,
        places: list[NodePlace],
        *,
        host: str = HOST,
        advertised: Mapping[int, int] | None = None,
        settings: Mapping[str, str] | None = None,
        dynamic: bool = False,
        security: LocalSecurity | None = None,
    ) -> None:
        """``advertised`` are ports that are reached by other ports, which are named here."""
        self.places = places
        self._bound = host
        self._host = HOST if host in _ANYWHERE else host
        self._advertised = dict(advertised or {})
        self._settings = dict(settings or {})
        self._dynamic = dynamic
        self._security = security
        self._protocol = "PLAINTEXT" if security is None else security.protocol
        self._brokers = sum(place.port is not None for place in places)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(
            f"{self._reached_at(place)}:{place.port}"
            for place in self.places
            if place.port is not None
        )

    def _reached_at(self, place: NodePlace) -> str:
        return place.host or self._host

    def properties(self, place: NodePlace) -> dict[str, str]:
        """The server.properties of a node."""
        roles = {"broker": place.port is not None, "controller": place.controller_port is not None}
        internal = any(each.internal_port is not None for each in self.places)
        properties = {
            "process.roles": ",".join(role for role, is_one in roles.items() if is_one),
            "node.id": str(place.node_id),
            "listeners": _listeners(place, self._protocol, place.host or self._bound, {}),
            "advertised.listeners": _listeners(
                place, self._protocol, self._reached_at(place), self._advertised
            ),
            "controller.listener.names": "CONTROLLER",
            **self._quorum(),
            "listener.security.protocol.map": ",".join(
                f"{name}:{self._protocol}" for name in (self._protocol, "INTERNAL", "CONTROLLER")
            ),
            "inter.broker.listener.name": "INTERNAL" if internal else self._protocol,
            "log.dirs": place.data,
            **replicated_properties(self._brokers),
        }
        if not roles["broker"]:
            del properties["inter.broker.listener.name"]
        if place.rack is not None:
            properties["broker.rack"] = place.rack
        if self._security is not None:
            properties |= self._security.node_settings()
        return {**properties, **self._settings}

    def _quorum(self) -> dict[str, str]:
        addresses = {
            place.node_id: f"{self._reached_at(place)}:{self._reached(place.controller_port)}"
            for place in self.places
            if place.controller_port is not None
        }
        if self._dynamic:
            return {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        voters = (f"{node_id}@{address}" for node_id, address in addresses.items())
        return {"controller.quorum.voters": ",".join(voters)}

    def _reached(self, port: int | None) -> int:
        assert port is not None
        return self._advertised.get(port, port)

    def format(self) -> None:
        """Prepare the directories that are not: as one new cluster, or as more of an old one."""
        known = {place.node_id: _meta(place) for place in self.places}
        there = [meta for meta in known.values() if meta is not None]
        if len({meta.cluster_id for meta in there}) > 1:
            raise OSError("the directories belong to different clusters")
        if len(there) == len(self.places):
            return
        chance = Chance()
        cluster_id = there[0].cluster_id if there else uuid_text(random_uuid(chance))
        voters = ",".join(
            f"{place.node_id}@{self._reached_at(place)}:{self._reached(place.controller_port)}:"
            f"{uuid_text(random_uuid(chance))}"
            for place in self.places
            if place.controller_port is not None
        )
        for place in self.places:
            config = BrokerConfig.from_properties(self.properties(place))
            begins = self._dynamic and config.is_controller and not there
            Path(place.data).mkdir(parents=True, exist_ok=True)
            format_storage(
                OsFilesystem(),
                config,
                cluster_id,
                initial_controllers=voters if begins else None,
                no_initial_controllers=self._dynamic and not begins,
                ignore_formatted=True,
                add_scram=() if self._security is None else self._security.scram_users(),
                chance=chance,
                now_ms=time.time_ns() // 1_000_000,
            )


def _listeners(place: NodePlace, protocol: str, host: str, advertised: Mapping[int, int]) -> str:
    named = {
        protocol: place.port,
        "INTERNAL": place.internal_port,
        "CONTROLLER": place.controller_port,
    }
    return ",".join(
        f"{name}://{host}:{advertised.get(port, port)}"
        for name, port in named.items()
        if port is not None
    )


def _meta(place: NodePlace) -> MetaProperties | None:
    file = Path(place.data) / META_PROPERTIES
    return MetaProperties.decode(file.read_bytes()) if file.exists() else None


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, below those that the kernel hands out by itself."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = _FIRST_PORT + secrets.randbelow(_PORTS)
            trial = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", port))
                ports.append(port)
        return ports
