"""A cluster as its clients see it: addresses to begin with, then whatever they tell us.

Keeps one connection per broker and the metadata, asks again with growing pauses where that can
help, and gives up at a deadline with a list of what was tried. Not safe for several threads.
"""

import ssl
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from ottla.client.connection import Address, Connection
from ottla.client.errors import BrokerUnavailable, TlsFailed, refusal
from ottla.client.metadata import ClusterMetadata, TopicMetadata
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.client.system_time import Deadline, SystemTime, WaitingClock
from ottla.common.chance import Chance
from ottla.common.errors import RETRIABLE, ApiError, ErrorCode, ProtocolViolation
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.message import Message
from ottla.security.sasl_client import PROTOCOL

M = TypeVar("M", bound=Message)

DEFAULT_PORT: Final = 9092
ANY: Final = -1
"""As a node id: whichever broker answers."""
_CONTROLLERS: Final = 2
"""The kind of endpoint, as DescribeCluster numbers them."""
_BOOTSTRAP: Final = -1000
"""Connections to addresses whose node is not known yet have ids from here downwards."""


def is_retriable(error: ApiError) -> bool:
    """Whether asking again may help."""
    return error.code in RETRIABLE


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS: {error.reason.lower().replace('_', ' ')}"
    return str(error) or type(error).__name__


def _is_final(error: Exception) -> bool:
    """Whether TLS itself has failed, not the connection below it."""
    if isinstance(error, TlsFailed):
        return True
    return isinstance(error, ssl.SSLError) and not isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    )


class Timing(NamedTuple):
    """How long to wait for what, in milliseconds."""

    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    call_timeout_ms: int = 60_000
    """For a call with all its attempts."""
    back_off_ms: int = 100
    back_off_max_ms: int = 1_000
    metadata_age_max_ms: int = 300_000


def parse_addresses(bootstrap_servers: str | Iterable[str]) -> list[Address]:
    """``host:port,host:port``; IPv6 in brackets; the port may be left out."""
    texts = (
        bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    )
    addresses: list[Address] = []
    for text in (part.strip() for part in texts):
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"not an address of a broker: {text!r}")
        addresses.append(Address(host, int(port)))
    return addresses


class Cluster:
    """What producer, consumer and admin stand on."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str = "ottla",
        timing: Timing | None = None,
        security: ClientSecurity = UNSECURED,
        response_size_max: int = 128 << 20,
        clock: WaitingClock | None = None,
        of_controllers: bool = False,
    ) -> None:
        """``of_controllers``: the addresses are those of controllers, which know no topics."""
        self._bootstrap = parse_addresses(bootstrap_servers)
        self.of_controllers = of_controllers
        self._client_id = client_id
        self.timing = timing or Timing()
        self.clock: WaitingClock = clock or SystemTime()
        self._protocol = security.protocol
        self._tls = security.tls()
        self._login = security.login(Chance(), self.clock.wall_ms)
        self._sessions: dict[int, Deadline] = {}
        """When those connections must log in again that must at all."""
        self._response_size_max = response_size_max
        self.metadata = ClusterMetadata()
        self._metadata_until = Deadline(self.clock, 0)
        self._connections: dict[int, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """When a call that begins now must end."""
        return Deadline(
            self.clock, self.timing.call_timeout_ms if timeout_ms is None else timeout_ms
        )

    def pause(self, attempt: int, deadline: Deadline) -> None:
        """Wait before attempt number ``attempt`` (from 1), longer each time."""
        milliseconds = min(
            self.timing.back_off_ms * 2 ** min(attempt - 1, 20), self.timing.back_off_max_ms
        )
        self.clock.wait(min(milliseconds / 1000, deadline.seconds))

    def connection(self, node_id: int, deadline: Deadline) -> Connection:
        """The connection to a node, or to any for ANY; BrokerUnavailable when there is none."""
        if node_id == ANY:
            return self._any_connection(deadline)
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise BrokerUnavailable(f"node {node_id} is not known", [])
        return self._connect(node_id, broker.address, deadline)

    def _connect(self, key: int, address: Address, deadline: Deadline) -> Connection:
        connection = self._connections.get(key)
        if connection is not None and not connection.closed and connection.address == address:
            return self._logged_in(key, connection)
        if connection is not None:
            connection.close()
        seconds = min(self.timing.connect_timeout_ms / 1000, deadline.seconds)
        if seconds <= 0:
            raise BrokerUnavailable("no time is left to connect", [(str(address), "not tried")])
        try:
            connection = Connection(
                address,
                client_id=self._client_id,
                timeout_seconds=seconds,
                response_size_max=self._response_size_max,
                tls=self._tls,
                login=self._login,
            )
        except (OSError, ProtocolViolation) as error:
            kind = TlsFailed if _is_final(error) else BrokerUnavailable
            tried = [(str(address), self._reason(error))]
            raise kind(f"cannot connect to {address}", tried) from error
        self._connections[key] = connection
        self._began_session(key, connection)
        return connection

    def _reason(self, error: Exception) -> str:
        """With what is said most often when the other side wants another protocol."""
        differs = isinstance(error, ConnectionResetError | ssl.SSLError | TlsFailed)
        return _reason(error) + (f" ({PROTOCOL} is {self._protocol} here)" if differs else "")

    def _began_session(self, key: int, connection: Connection) -> None:
        self._sessions.pop(key, None)
        if connection.session_seconds is not None:
            self._sessions[key] = Deadline(self.clock, connection.session_seconds * 1000)

    def _logged_in(self, key: int, connection: Connection) -> Connection:
        """A session that ends soon is made to go on, between two requests."""
        due = self._sessions.get(key)
        if due is not None and due.passed and not connection.in_flight:
            assert self._login is not None
            connection.log_in(self._login, self.timing.request_timeout_ms / 1000)
            self._began_session(key, connection)
        return connection

    def _any_connection(self, deadline: Deadline) -> Connection:
        for key, connection in self._connections.items():
            if not connection.closed:
                return self._logged_in(key, connection)
        known = [(node_id, broker.address) for node_id, broker in self.metadata.brokers.items()]
        known += [(_BOOTSTRAP - at, address) for at, address in enumerate(self._bootstrap)]
        tried: list[tuple[str, str]] = []
        for key, address in known:
            try:
                return self._connect(key, address, deadline)
            except TlsFailed:
                raise
            except BrokerUnavailable as error:
                tried += error.tried
        raise BrokerUnavailable("no broker is available", tried)

    def ask(
        self,
        node_id: int,
        request: Message | Callable[[int], Message],
        answer: type[M],
        deadline: Deadline,
        *,
        highest: int | None = None,
    ) -> M:
        """Ask one node once, in a version of at most ``highest``.

        A request that differs by version is given as a function of it.
        """
        connection = self.connection(node_id, deadline)
        version = connection.version(answer.API_KEY, highest)
        message = request if isinstance(request, Message) else request(version)
        seconds = min(self.timing.request_timeout_ms / 1000, deadline.seconds)
        try:
            return connection.ask(message, answer, version, seconds or 0.001)
        except (OSError, ProtocolViolation) as error:
            raise BrokerUnavailable(
                f"{connection.address} did not answer",
                [(str(connection.address), self._reason(error))],
            ) from error

    def ask_again(
        self,
        request: Message | Callable[[int], Message],
        answer: type[M],
        *,
        node_id: int | Callable[[], int] = ANY,
        failed: Callable[[M], ApiError | None] = lambda _: None,
        deadline: Deadline | None = None,
        highest: int | None = None,
    ) -> M:
        """Ask until there is an answer that has not ``failed`` in a way that may pass."""
        deadline = deadline or self.deadline()
        attempt = 0
        while True:
            error: ApiError | BrokerUnavailable | None
            try:
                target = node_id if isinstance(node_id, int) else node_id()
                response = self.ask(target, request, answer, deadline, highest=highest)
                error = failed(response)
                if error is None:
                    return response
                if not is_retriable(error):
                    raise error
            except TlsFailed:
                raise
            except BrokerUnavailable as unavailable:
                error = unavailable
            self.expire_metadata()
            attempt += 1
            self.pause(attempt, deadline)
            if deadline.passed:
                raise error

    def expire_metadata(self) -> None:
        """The next look at the metadata asks for it anew."""
        self._metadata_until = Deadline(self.clock, 0)

    def refresh(
        self,
        topics: Sequence[str] | None = (),
        *,
        deadline: Deadline | None = None,
        create: bool = False,
    ) -> ClusterMetadata:
        """Ask for the brokers and for ``topics``; None means all of them.

        ``create`` lets the broker make topics that are missing, if its settings allow it.
        """
        if self.of_controllers:
            return self._refresh_controllers(deadline)
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=create)
        response = self.ask_again(request, MetadataResponse, deadline=deadline)
        if topics is None:
            self.metadata.topics.clear()
        for name in topics or ():
            self.metadata.forget(name)
        self.metadata.learn(response)
        self._metadata_until = Deadline(self.clock, self.timing.metadata_age_max_ms)
        self._sort_connections()
        return self.metadata

    def _refresh_controllers(self, deadline: Deadline | None) -> ClusterMetadata:
        """Controllers tell of themselves and of the one that is active (KIP-919)."""
        response = self.ask_again(
            DescribeClusterRequest(endpoint_type=_CONTROLLERS),
            DescribeClusterResponse,
            failed=lambda answer: (
                refusal(answer.error_code, answer.error_message) if answer.error_code else None
            ),
            deadline=deadline,
        )
        self.metadata.learn_controllers(response)
        self._metadata_until = Deadline(self.clock, self.timing.metadata_age_max_ms)
        self._sort_connections()
        return self.metadata

    def _sort_connections(self) -> None:
        """Key those of the bootstrap list by their nodes, and part with nodes that are gone."""
        brokers = self.metadata.brokers
        node_ids = {broker.address: node_id for node_id, broker in brokers.items()}
        for key, connection in list(self._connections.items()):
            node_id = node_ids.get(connection.address)
            if key <= _BOOTSTRAP and node_id is not None and node_id not in self._connections:
                self._connections[node_id] = self._connections.pop(key)
            elif key > _BOOTSTRAP and key not in brokers:
                self._connections.pop(key).close()

    def know(self, topics: Iterable[str], deadline: Deadline, *, create: bool = False) -> None:
        """See to it that the metadata of ``topics`` is there and not too old."""
        wanted = sorted(set(topics))
        if self._metadata_until.passed or any(
            name not in self.metadata.topics or self.metadata.topics[name].error_code
            for name in wanted
        ):
            known = sorted({*wanted, *self.metadata.topics})
            self.refresh(known, deadline=deadline, create=create)

    def topic(
        self, name: str, deadline: Deadline | None = None, *, create: bool = False
    ) -> TopicMetadata:
        """A topic and its partitions; the broker's error when there is none and none comes."""
        topic = self.metadata.topics.get(name)
        if topic is not None and topic.exists and not self._metadata_until.passed:
            return topic
        deadline = deadline or self.deadline()
        attempt = 0
        while True:
            self.know([name], deadline, create=create)
            topic = self.metadata.topics.get(name)
            if topic is not None and topic.exists:
                return topic
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            error = refusal(code, f"topic {name}: {ErrorCode(code).name}")
            waits = create or code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            attempt += 1
            if not is_retriable(error) or not waits or deadline.passed:
                raise error
            self.expire_metadata()
            self.pause(attempt, deadline)

    def node(self, node_id: int) -> int:
        """A node that was named by its id, if the cluster has it now."""
        brokers = self.refresh().brokers
        if node_id not in brokers:
            known = ", ".join(str(known) for known in sorted(brokers))
            raise BrokerUnavailable(f"there is no broker {node_id}, only {known}", [])
        return node_id

    def controller(self) -> int:
        """The node to ask for changes of the cluster: brokers pass them on where they must."""
        controller_id = self.metadata.controller_id
        return controller_id if controller_id in self.metadata.brokers else ANY
