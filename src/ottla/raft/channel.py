"""What the quorum needs of a network: requests to nodes at an address, and promises of answers.

The channel chooses the version of a request, the highest that both sides know, and connects, and
connects again, as it needs to. The quorum itself resends, backs off and gives up waiting; so a
channel only has to fail what it cannot deliver, and may forget what nobody has answered.
"""

from typing import NamedTuple, Protocol, TypeVar

from ottla.common.promise import Promise, failed
from ottla.common.turn import Turn
from ottla.protocol.message import Request, Response

R = TypeVar("R", bound=Response)


class Destination(NamedTuple):
    node_id: int
    """Below -1 for a bootstrap server, of which only the address is known."""
    host: str
    port: int


class RaftChannel(Protocol):
    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        """Promise the response; fails with an ``Exception`` when there is none to be had."""
        ...


class Unconnected:
    """The channel of a quorum of one, which has nobody to talk to."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        name = type(request).__name__
        return failed(self._turn, ConnectionError(f"no way for {name} to {destination.host}"))
