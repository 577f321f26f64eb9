"""Clients' requests on their way to the active controller, in envelopes (KIP-590)."""

from ottla.common.errors import ApiError
from ottla.common.promise import Promise, run
from ottla.common.turn import Turn
from ottla.handlers.envelope import seal
from ottla.requests.context import ControllerServices, RequestContext
from ottla.server.remote_controller import RemoteController


class ControllerForwarding:
    """See the module. ``local`` are the services of the controller in this process, if any."""

    def __init__(
        self, controller: RemoteController, local: ControllerServices | None, turn: Turn
    ) -> None:
        self._controller = controller
        self._local = local
        self._turn = turn

    @property
    def local(self) -> ControllerServices | None:
        return None if self._controller.active_here is None else self._local

    def forward(
        self, request: bytes, context: RequestContext, timeout_ms: int | None
    ) -> Promise[bytes]:
        return run(self._turn, self._forward(request, context, timeout_ms))

    async def _forward(
        self, request: bytes, context: RequestContext, timeout_ms: int | None
    ) -> bytes:
        envelope = seal(request, context)
        answered = await self._controller.submit(envelope, timeout_ms=timeout_ms)
        if answered.response_data is None:
            raise ApiError("an envelope came back empty")
        return answered.response_data
