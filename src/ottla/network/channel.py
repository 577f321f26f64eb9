"""The channel of the quorum on a network: one connection to each address that is talked to."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.network.sockets import DiallingNetwork
from ottla.protocol.message import Request, Response
from ottla.raft.channel import Destination

if TYPE_CHECKING:
    from ottla.security.sasl_client import SaslLogin

R = TypeVar("R", bound=Response)
ADDRESSES_MAX: Final = 1_000
"""Addresses come from other controllers too; the one that was first talked to goes first."""


class NetworkChannel:
    """Implements ``RaftChannel``."""

    def __init__(
        self,
        network: DiallingNetwork,
        scheduler: Scheduler,
        *,
        client_id: str,
        limits: NodeClientLimits,
        login: "SaslLogin | None" = None,
    ) -> None:
        self._make: Callable[[str, int], NodeClient] = lambda host, port: NodeClient(
            network, scheduler, host, port, client_id=client_id, limits=limits, login=login
        )
        self._clients: dict[tuple[str, int], NodeClient] = {}

    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        address = (destination.host, destination.port)
        client = self._clients.get(address)
        if client is None:
            if len(self._clients) >= ADDRESSES_MAX:
                self._clients.pop(next(iter(self._clients))).close()
            client = self._clients[address] = self._make(*address)
        return client.send(request)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
