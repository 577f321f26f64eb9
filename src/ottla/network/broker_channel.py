"""Requests to other brokers of the cluster, by node id: the metadata log says where they are.

Each purpose has a channel of its own (followers, markers, verification): answers on a connection
come in the order of its requests, so that behind a fetch that waits everything else would wait too.
"""

from typing import TYPE_CHECKING, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise, failed
from ottla.metadata.image import ImageSource
from ottla.network.node_client import NodeClient, NodeClientLimits, Read
from ottla.network.sockets import DiallingNetwork
from ottla.protocol.message import Message, Request, Response

if TYPE_CHECKING:
    from ottla.security.sasl_client import SaslLogin

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class BrokerChannel:
    """One connection to each broker that is talked to, on the listener that brokers use."""

    def __init__(
        self,
        network: DiallingNetwork,
        scheduler: Scheduler,
        metadata: ImageSource,
        *,
        listener_name: str,
        client_id: str,
        limits: NodeClientLimits,
        login: "SaslLogin | None" = None,
    ) -> None:
        self._network = network
        self._scheduler = scheduler
        self._metadata = metadata
        self._listener_name = listener_name
        self._client_id = client_id
        self._limits = limits
        self._login = login
        self._clients: dict[int, tuple[tuple[str, int], NodeClient]] = {}

    def send(self, node_id: int, request: Request[R]) -> Promise[R]:
        """Promise the answer; fails with an ``OSError`` when there is none to be had."""
        client = self.client(node_id)
        return self._unreachable(node_id) if client is None else client.send(request)

    def ask(self, node_id: int, request: Message, read: Read[T]) -> Promise[T]:
        """As :meth:`NodeClient.ask`: the answer is read where it was received."""
        client = self.client(node_id)
        return self._unreachable(node_id) if client is None else client.ask(request, read)

    def _unreachable(self, node_id: int) -> Promise[T]:
        error = ConnectionError(f"nothing is known of how to reach broker {node_id}")
        return failed(self._scheduler.turn, error)

    def client(self, node_id: int) -> NodeClient | None:
        """The connection to ``node_id``, made anew when the broker has moved."""
        address = self._address(node_id)
        known = self._clients.get(node_id)
        if known is not None:
            if known[0] == address:
                return known[1]
            del self._clients[node_id]
            known[1].close()
        if address is None:
            return None
        client = NodeClient(
            self._network,
            self._scheduler,
            *address,
            client_id=self._client_id,
            limits=self._limits,
            login=self._login,
        )
        self._clients[node_id] = address, client
        return client

    def _address(self, node_id: int) -> tuple[str, int] | None:
        broker = self._metadata.image.brokers.get(node_id)
        endpoint = None if broker is None else broker.listeners.get(self._listener_name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def close(self) -> None:
        for _, client in self._clients.values():
            client.close()
        self._clients.clear()
