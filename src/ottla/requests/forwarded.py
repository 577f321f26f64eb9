"""What a broker leaves to the controller (KIP-590).

It is handled here while the controller of this process is the active one; else the frame goes to
the active one in an envelope, and its answer comes back as it is.
"""

from contextlib import suppress
from typing import Final, Generic, TypeVar

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError, NotController
from ottla.common.promise import Promise, run
from ottla.protocol.message import Message, Response
from ottla.requests.context import ControllerServices, RequestContext, Services
from ottla.requests.contract import Handler

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Response)

_TURNS_MAX: Final = 10
"""How often the active controller may come and go while one request looks for it."""


class Forwarded(Generic[Q, R]):
    """An API of the controller, as a broker serves it."""

    def __init__(self, handler: Handler[Q, R, ControllerServices]) -> None:
        self._handler = handler

    def answer(
        self, frame: memoryview, pos: int, context: RequestContext, services: Services
    ) -> "Answer | Promise[Answer]":
        answer = run(services.scheduler.turn, self._answered(bytes(frame), pos, context, services))
        return answer.result() if answer.done else answer

    async def _answered(
        self, data: bytes, pos: int, context: RequestContext, services: Services
    ) -> Answer:
        """While it waits for another node, only its bytes are kept: objects take many times that.

        It is read anew for each turn: what the client may not ask for is taken out of it.
        """
        handler, forwarding = self._handler, services.forwarding
        if handler.at_broker is not None:
            request = handler.decode(data, pos, context.version)
            refused = handler.at_broker(request, context, services)
            if refused is not None:
                return handler.frame(refused, context, services)
        refusal: ApiError = NotController()
        for _ in range(_TURNS_MAX):
            local = forwarding.local
            if local is not None:
                with suppress(NotController):
                    request = handler.decode(data, pos, context.version)
                    response = await handler.decided(request, context, local)
                    return handler.frame(response, context, services)
            try:
                timeout_ms = self._timeout_ms(handler.decode(data, pos, context.version))
                answered = await forwarding.forward(data, context, timeout_ms)
            except NotController:
                continue  # it is here by now
            except ApiError as error:
                refusal = error
                break
            return len(answered).to_bytes(4, "big") + answered
        request = handler.decode(data, pos, context.version)
        return handler.frame(handler.refuse(request, refusal, context.version), context, services)

    def _timeout_ms(self, request: Q) -> int | None:
        """How long the client waits; what no time at all means, the controller says."""
        read = self._handler.timeout_ms
        timeout_ms = 0 if read is None else read(request)
        return timeout_ms if timeout_ms > 0 else None
