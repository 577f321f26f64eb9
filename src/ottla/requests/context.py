"""Who asks, and whom a handler may ask."""

from typing import TYPE_CHECKING, Protocol

from ottla.common.authorization import ANONYMOUS, Authorizer, Client, Granted, Principal
from ottla.common.buffers import Answer
from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.config.changes import Resource
from ottla.config.layers import Layers
from ottla.metadata.image import MetadataImage
from ottla.protocol.encoded import Encoded
from ottla.requests.quotas import ClientQuotas

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.controller.client import ControllerClient
    from ottla.controller.driver import ControllerDriver
    from ottla.coordinator.group.service import GroupService
    from ottla.coordinator.transaction.markers import MarkerSender
    from ottla.coordinator.transaction.service import ProducerIds, TransactionService
    from ottla.coordinator.transaction.verification import TransactionVerification
    from ottla.raft.driver import RaftDriver
    from ottla.replication.log_moves import LogMoves
    from ottla.replication.replicas import Replicas
    from ottla.requests.metadata_parts import MetadataParts
    from ottla.storage.manager import LogManager
    from ottla.storage.remote import RemoteLogs


class Peer(Protocol):
    """A connection, as far as handlers may know it."""

    @property
    def listener_name(self) -> str: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def local_host(self) -> str: ...

    @property
    def local_port(self) -> int: ...

    @property
    def principal(self) -> Principal:
        """Whose requests they are; ANONYMOUS where nobody need log in."""
        ...

    @property
    def granted(self) -> Granted:
        """What the client was allowed on the hot way; see :mod:`ottla.requests.hot_access`."""
        ...

    def hold(self, size: int) -> None:
        """Count the bytes of a request that is kept while it waits, and are in memory."""
        ...

    def let_go(self, size: int) -> None:
        """Those bytes are kept no more."""
        ...

    def answer_first(self, answer: "Promise[Answer]") -> None:
        """Read nothing until this is answered."""
        ...

    def mute(self, seconds: float) -> None:
        """Read nothing for so long; of several times, the one that ends last holds."""
        ...


class RequestContext:
    """One request's circumstances."""

    __slots__ = (
        "client_id",
        "correlation_id",
        "is_forwarded",
        "is_long",
        "listener_name",
        "local_host",
        "local_port",
        "of_controller",
        "peer_host",
        "principal",
        "request_name",
        "version",
    )

    def __init__(
        self,
        *,
        version: int,
        correlation_id: int = 0,
        client_id: str | None = None,
        peer: Peer | None = None,
        principal: Principal = ANONYMOUS,
        of_controller: bool = False,
        request_name: str = "",
    ) -> None:
        self.version = version
        self.of_controller = of_controller
        """Whether the client dialled a listener of the controller."""
        self.is_forwarded = False
        """Whether a broker has sent it on to the controller, in an envelope."""
        self.is_long = False
        """Whether it is handled in many turns, and what the client sends next waits for it."""
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.principal = principal
        self.request_name = request_name
        """The name of the API."""
        self.listener_name = "" if peer is None else peer.listener_name
        self.peer_host = "" if peer is None else peer.peer_host
        self.local_host = "" if peer is None else peer.local_host
        self.local_port = 0 if peer is None else peer.local_port

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it to people."""
        return f"/{self.peer_host}"


class MetadataSource(Protocol):
    @property
    def image(self) -> MetadataImage: ...


class AutoTopics(Protocol):
    """Topics that come to be because somebody asked for them."""

    def create(self, names: list[str], client: Client) -> Promise[dict[str, int]]:
        """Ask for topics with the broker's defaults, for ``client``; an error code for each."""
        ...

    def ensure_internal(self, name: str) -> Promise[int]:
        """See that an internal topic exists; answers an error code, NONE when it is there."""
        ...


class Forwarding(Protocol):
    """The way of a client's request to the active controller."""

    @property
    def local(self) -> "ControllerServices | None":
        """Those of the controller in this process, while it is the active one."""
        ...

    def forward(
        self, request: bytes, context: RequestContext, timeout_ms: int | None
    ) -> Promise[bytes]:
        """Send a request, header and body, in an envelope; promise the answer to it.

        ``timeout_ms`` is how long the client waits, if the request says so.
        """
        ...


class Mistakes(Protocol):
    """Where mistakes of ours are told."""

    def exception(self, message: str, **fields: object) -> None: ...


class NodeServices:
    """What handlers ask on any listener."""

    __slots__ = (
        "api_versions",
        "authorizer",
        "cluster_id",
        "config",
        "controller",
        "metadata",
        "mistakes",
        "node_id",
        "quotas",
        "raft",
        "scheduler",
        "settings_of_file",
    )

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: "BrokerConfig",
        metadata: MetadataSource,
        controller: "ControllerClient",
        raft: "RaftDriver",
        scheduler: Scheduler,
        authorizer: Authorizer,
        mistakes: Mistakes,
        quotas: ClientQuotas | None = None,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.config = config
        """The node's current settings; replaced when a dynamic one changes."""
        self.settings_of_file = config.originals
        """What the node was started with; never replaced."""
        self.metadata = metadata
        self.controller = controller
        self.raft = raft
        """This node's part in the quorum."""
        self.scheduler = scheduler
        self.authorizer = authorizer
        self.mistakes = mistakes
        self.quotas = quotas or ClientQuotas(scheduler.monotonic)
        """What clients may take; without any that are set, as much as they like."""
        self.api_versions: dict[tuple[int, bool], tuple[object, Encoded]] = {}
        """The last answer of each version, with what it was made of; a controller's apart."""

    def layers(self) -> Layers:
        """The node's settings by their origin: its file, all brokers', its own."""
        configs_of = self.metadata.image.configs_of
        return Layers(
            self.settings_of_file,
            configs_of(Resource.BROKER, ""),
            configs_of(Resource.BROKER, str(self.node_id)),
        )


class ControllerServices(NodeServices):
    """What handlers ask on a controller's listener: its own controller, active or not."""

    __slots__ = ()
    controller: "ControllerDriver"


class Services(NodeServices):
    """What handlers ask on a broker's listener. ``controller`` is the active one, wherever."""

    __slots__ = (
        "auto_topics",
        "forwarding",
        "groups",
        "log_moves",
        "logs",
        "markers",
        "metadata_parts",
        "producer_ids",
        "remote_logs",
        "replicas",
        "transactional_appends",
        "transactions",
        "verification",
    )

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: "BrokerConfig",
        metadata: MetadataSource,
        metadata_parts: "MetadataParts",
        controller: "ControllerClient",
        forwarding: Forwarding,
        raft: "RaftDriver",
        replicas: "Replicas",
        logs: "LogManager",
        log_moves: "LogMoves",
        groups: "GroupService",
        transactions: "TransactionService",
        verification: "TransactionVerification",
        markers: "MarkerSender",
        auto_topics: AutoTopics,
        producer_ids: "ProducerIds",
        scheduler: Scheduler,
        authorizer: Authorizer,
        mistakes: Mistakes,
        remote_logs: "RemoteLogs | None" = None,
        quotas: ClientQuotas | None = None,
    ) -> None:
        super().__init__(
            node_id=node_id,
            cluster_id=cluster_id,
            config=config,
            metadata=metadata,
            controller=controller,
            raft=raft,
            scheduler=scheduler,
            authorizer=authorizer,
            mistakes=mistakes,
            quotas=quotas,
        )
        self.metadata_parts = metadata_parts
        """What was encoded of the image already."""
        self.forwarding = forwarding
        self.replicas = replicas
        self.logs = logs
        self.log_moves = log_moves
        self.groups = groups
        self.transactions = transactions
        self.verification = verification
        self.markers = markers
        """Writes the ends of transactions on the partitions that this broker leads."""
        self.transactional_appends: dict[int, Promise[None]] = {}
        """Of each producer whose appends wait for verification, the end of the last one."""
        self.auto_topics = auto_topics
        self.producer_ids = producer_ids
        self.remote_logs = remote_logs
        """What older segments are asked for; None where there is no remote store."""
