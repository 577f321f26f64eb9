"""What a broker needs of the controller, wherever that is: in this process, or across the network.

Every answer is a promise. A refusal of the whole request fails it with an ``ApiError``, among them
NOT_CONTROLLER while no controller is active here; errors of single topics are in the answer.
"""

from typing import Protocol, TypeVar

from ottla.common.authorization import Client
from ottla.common.promise import Promise
from ottla.protocol.message import Request, Response

R = TypeVar("R", bound=Response)


class ControllerClient(Protocol):
    def submit(self, request: Request[R], client: Client | None = None) -> Promise[R]:
        """Ask; for ``client``, if it is the client's business and not that of this node."""
        ...
