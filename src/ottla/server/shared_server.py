"""What the halves of a node share: its settings, its disk, its time and network, its metadata."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from errno import EADDRINUSE

from ottla.common.authorization import Authorizer, EverythingAllowed
from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.metadata.cache import MetadataCache
from ottla.network.broker_channel import BrokerChannel
from ottla.network.channel import NetworkChannel
from ottla.network.connection_rates import ConnectionRates
from ottla.network.node_client import NodeClientLimits
from ottla.network.server import SocketServer, SocketServerLimits, descriptors_for_clients
from ottla.network.sockets import DiallingNetwork
from ottla.observability.metrics import Registry
from ottla.requests.quotas import ClientQuotas, QuotaWindows
from ottla.server.optional_parts import LoginsOfNode, Networks, make_logins, make_networks
from ottla.storage.files import Filesystem
from ottla.storage.manager import LogManager


class StartRefused(Exception):
    """The node cannot start as it is; the text is for the person who started it."""


@dataclass(slots=True)
class SharedServer:
    config: BrokerConfig
    """As the node was started; see ``Settings`` for what holds now."""
    filesystem: Filesystem
    network: DiallingNetwork
    scheduler: Scheduler
    chance: Chance
    metadata: MetadataCache
    logs: LogManager
    failed: Callable[[BaseException], None]
    """Called when the node must end."""
    metrics: Registry = field(default_factory=Registry)
    """All that is counted in this node, by Kafka's names."""
    authorizer: Authorizer = field(default_factory=EverythingAllowed)
    """Says what clients may do."""
    secured: Networks = field(init=False)
    """The network of each listener, once :meth:`secure` has made them."""
    cluster_id: str = ""
    """Known once the directories are locked and read."""
    logins: LoginsOfNode = field(init=False)
    """How clients say who they are, and how this node does; known once :meth:`secure` is done."""

    def secure(self) -> None:
        """Read keys, certificates, and how logins are done."""
        try:
            self.logins = make_logins(self.config, self.metadata, self.scheduler, self.chance)
            self.secured = make_networks(self.network, self.scheduler, self.config)
        except InvalidConfig as error:
            raise StartRefused(error.message) from error

    def metadata_directory_id(self) -> bytes:
        """The id of the directory that has the metadata log."""
        path = self.config.metadata_log_dir
        for directory in self.logs.online_directories:
            if directory.path == path and directory.directory_id is not None:
                return directory.directory_id
        raise StartRefused(f"the metadata log directory {path} cannot be read")

    def socket_server(self, listeners: tuple[Listener, ...]) -> SocketServer:
        """For ``listeners``; those that are for other nodes only are not filled up by clients."""
        config = self.config
        names = frozenset(listener.name for listener in listeners)
        nodes_only = frozenset(listener.name for listener in config.controller_listeners)
        if len(names) > 1:
            nodes_only |= {config.inter_broker_listener_name}
        limits = SocketServerLimits(
            connections=config.max_connections,
            connections_per_ip=config.max_connections_per_ip,
            connections_per_ip_overrides=dict(config.max_connections_per_ip_overrides),
            frame_bytes=config.socket_request_max_bytes,
            idle_ms=config.connections_max_idle_ms,
            queued_request_bytes=config.queued_max_request_bytes,
            descriptors=descriptors_for_clients(self.network.descriptor_limit),
        )
        rates = ConnectionRates(config.quota_window_num, config.quota_window_size_seconds)
        server = SocketServer(self.network, self.scheduler, limits, names & nodes_only, rates)
        try:
            limit_connections(server, config, names)
        except InvalidConfig as error:
            raise StartRefused(error.message) from error
        self.metadata.on_image(rates.changed)
        return server

    def client_quotas(self) -> ClientQuotas:
        """Those of one half of the node, which follow the metadata."""
        config = self.config
        seconds = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        quotas = ClientQuotas(
            self.scheduler.monotonic,
            QuotaWindows(config.quota_window_num, config.quota_window_size_seconds, seconds),
        )
        self.metadata.on_image(quotas.changed)
        return quotas

    def raft_channel(self) -> NetworkChannel:
        """To the other nodes of the quorum, for the quorum itself."""
        config = self.config
        return self._channel("raft-client", config.controller_quorum_request_timeout_ms / 1000)

    def controller_channel(self, purpose: str, timeout_seconds: float) -> NetworkChannel:
        """To whichever controller is active."""
        return self._channel(f"{purpose}-to-controller", timeout_seconds)

    def broker_channel(self, purpose: str, timeout_ms: int | None = None) -> BrokerChannel:
        """To the other brokers."""
        config = self.config
        if timeout_ms is None:
            timeout_ms = config.request_timeout_ms
        return BrokerChannel(
            self.secured.of(config.inter_broker_listener_name),
            self.scheduler,
            self.metadata,
            listener_name=config.inter_broker_listener_name,
            client_id=f"broker-{config.node_id}-{purpose}",
            limits=NodeClientLimits(timeout_seconds=timeout_ms / 1000, backoff_seconds=0.05),
            login=self.logins.to_brokers,
        )

    def _channel(self, name: str, timeout_seconds: float) -> NetworkChannel:
        return NetworkChannel(
            self.secured.of_controllers(),
            self.scheduler,
            client_id=f"{name}-{self.config.node_id}",
            limits=NodeClientLimits(
                timeout_seconds=timeout_seconds,
                backoff_seconds=self.config.controller_quorum_retry_backoff_ms / 1000,
            ),
            login=self.logins.to_controllers,
        )


def limit_connections(server: SocketServer, config: BrokerConfig, names: Iterable[str]) -> None:
    """How many connections there may be and how fast they may come, as the settings are now."""
    server.limits.connections = config.max_connections
    server.limits.connections_per_ip = config.max_connections_per_ip
    server.limits.connections_per_ip_overrides = dict(config.max_connections_per_ip_overrides)
    server.limits.connections_at = at_listeners(config, names, "max.connections")
    server.rates.bound = config.max_connection_creation_rate
    server.rates.bound_at = at_listeners(config, names, "max.connection.creation.rate")


def at_listeners(config: BrokerConfig, names: Iterable[str], setting: str) -> dict[str, int]:
    """What is said of listeners by their own prefixes; InvalidConfig when it is no number."""
    found = {}
    for name in names:
        text = config.originals.get(f"listener.name.{name.lower()}.{setting}")
        if text is not None:
            number = BrokerConfig.keys[setting].parse(text)
            assert isinstance(number, int)
            found[name] = number
    return found


def bind(
    server: SocketServer, listeners: tuple[Listener, ...], secured: Networks
) -> dict[str, int]:
    """Take the addresses of listeners; their ports by name."""
    ports = {}
    for listener in listeners:
        try:
            ports[listener.name] = server.listen(
                listener.name,
                listener.host,
                listener.port,
                secured.of(listener.name),
                secured.identify(listener.name),
            )
        except OSError as error:
            raise StartRefused(cannot_listen(listener, error)) from error
    return ports


def cannot_listen(listener: Listener, error: OSError) -> str:
    """For the person who starts the node."""
    why = "another process has this port" if error.errno == EADDRINUSE else str(error)
    return f"cannot listen on {listener}: {why}"
