"""The contract of an API: what it is asked, what it needs, how it answers and how it refuses.

Each API exports one :class:`Handler`; mypy holds its functions to the request and the response of
the schema. :mod:`dispatch` finds the handler of a frame and lets it answer; there is no other way.

A request that raises an :class:`ApiError` is answered by ``refuse``. Anything else that is raised
is our mistake: it is logged, and the client hears UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import partial
from struct import Struct
from typing import Any, Final, Generic, Never, Protocol, TypeVar, cast

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError, NotController, ProtocolViolation
from ottla.common.promise import Promise, run
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.encoded import Encoded
from ottla.protocol.message import (
    CodedResponse,
    ExplainedResponse,
    Message,
    RequestClass,
    Response,
    from_buffer,
)
from ottla.protocol.primitives import ITEMS_MAX, Writer
from ottla.requests.context import NodeServices, Peer, RequestContext, Services
from ottla.requests.needs import Each, Hidden, Need, Whole
from ottla.requests.produce_crowd import AnswerTogether
from ottla.requests.turns import NAMES_AT_ONCE, of_names

C = TypeVar("C", bound=CodedResponse)
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Response)
S_contra = TypeVar("S_contra", bound=NodeServices, contravariant=True)

HotPath = Callable[[memoryview, int, int, int, Services, Peer], "Answer | Promise[Answer] | None"]
"""Frame, where its body begins, version, correlation id, services, who asks."""

_PREFIX: Final = Struct(">ii")
_FLEXIBLE_PREFIX: Final = Struct(">iiB")
_NEVER: Final = 1 << 15
SHARED_FROM: Final = 64 * 1024
"""Of so many bytes a copy costs more than to send them in several parts."""


class Quota(Enum):
    """What a request counts against, by Kafka's names."""

    REQUEST = "request_percentage"
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    EXEMPT = ""
    """Nothing: nodes ask each other so."""


class Contract:
    """What an API says of itself, whatever its request is."""

    def __init__(
        self,
        key: int,
        response: type[Response],
        needs: Sequence[Need[Never, Never]],
        quota: Quota,
        listeners: frozenset[str] | None,
        *,
        before_authentication: bool = False,
    ) -> None:
        api = APIS[key]
        self.response: type[Response] = response
        self.key: ApiKey = api.key
        self.name = api.name
        self.lowest, self.highest = api.lowest_version, api.highest_stable_version
        """Whatever is stable in the schema is served."""
        self.flexible_from = api.flexible_from
        self.listeners = api.listeners if listeners is None else listeners
        self.needs = tuple(needs)
        self.quota = quota
        self.before_authentication = before_authentication
        """Whether it is answered to a client that has not said yet who it is."""
        self.is_passed_on = False
        """Whether a broker leaves it to the controller."""
        self.is_kept = False
        """Whether its request counts as memory while its answer waits."""

    def answer_unsupported(self, context: RequestContext, _services: NodeServices) -> Answer:
        """The answer to a request in a version that is not served."""
        raise ProtocolViolation(f"{self.name} in the unknown version {context.version}")


class HotHandler(Contract):
    """Produce or Fetch: ``answer`` works in the frame, and asks for its needs by itself."""

    def __init__(
        self,
        request: RequestClass[Q, R],
        answer: HotPath,
        *,
        needs: Sequence[Need[Q, R]],
        quota: Quota,
        listeners: frozenset[str] | None = None,
        answer_together: AnswerTogether | None = None,
    ) -> None:
        super().__init__(request.API_KEY, request.RESPONSE, needs, quota, listeners)
        self.answer = answer
        self.answer_together = answer_together
        """Answers several at once, where that is cheaper."""


class Handler(Contract, Generic[Q, R, S_contra]):
    """An API. Its ``handle`` is a plain function that answers, or a coroutine if it may wait.

    A coroutine is stepped at once; unless it does wait, it never becomes a task.
    ``refuse`` shapes the answer to a request that is refused as a whole. ``passed_on`` says whether
    a broker leaves it to the controller, as the schema has it unless said otherwise; ``timeout_ms``
    reads how long the client waits for that, and ``at_broker`` answers what the broker refuses by
    itself, None for what may go on. ``waits_for_others`` says that an answer may wait for what
    other clients do; like one that is passed on, its request counts as memory meanwhile.
    ``unsupported`` is what a client of an unknown version hears in the form of version 0; other
    APIs end its connection.
    """

    def __init__(
        self,
        request: RequestClass[Q, R],
        handle: Callable[
            [Q, RequestContext, S_contra],
            "R | Encoded | Coroutine[object, None, R | Encoded]",
        ],
        *,
        refuse: Callable[[Q, ApiError, int], R],
        needs: Sequence[Need[Q, R]],
        quota: Quota = Quota.REQUEST,
        listeners: frozenset[str] | None = None,
        before_authentication: bool = False,
        passed_on: bool | None = None,
        waits_for_others: bool = False,
        timeout_ms: Callable[[Q], int] | None = None,
        at_broker: Callable[[Q, RequestContext, NodeServices], R | None] | None = None,
        unsupported: Callable[[], R] | None = None,
    ) -> None:
        super().__init__(
            request.API_KEY,
            request.RESPONSE,
            needs,
            quota,
            listeners,
            before_authentication=before_authentication,
        )
        api = APIS[request.API_KEY]
        # As RequestClass has it, the class makes Q; that it is a class, no protocol can say.
        self.request = cast("type[Q]", request)
        self._response = request.RESPONSE
        self.handle = handle
        self.refuse = refuse
        self.is_passed_on = api.forwardable if passed_on is None else passed_on
        self.is_kept = self.is_passed_on or waits_for_others
        self.timeout_ms = timeout_ms
        self.at_broker = at_broker
        self._unsupported = unsupported
        self._wholes = [need for need in needs if isinstance(need, Whole)]
        self._eaches = [need for need in needs if isinstance(need, Each)]
        self._hidden = [need for need in needs if isinstance(need, Hidden)]
        self._is_judged = bool(self._wholes or self._eaches or self._hidden)
        """Whether anything is asked for it but by its handler."""
        is_first = api.key == ApiKey.API_VERSIONS
        self._flexible_header_from = _NEVER if is_first else api.flexible_from

    def decode(self, data: bytes, pos: int, version: int) -> Q:
        # Bytes behind the request are not looked at, as in Kafka: librdkafka sends some.
        return from_buffer(self.request, data, pos, version, ITEMS_MAX)[0]

    def answer(
        self, frame: memoryview, pos: int, context: RequestContext, services: S_contra
    ) -> "Answer | Promise[Answer]":
        """The answer to a request whose body begins at ``pos``."""
        request = self.decode(bytes(frame), pos, context.version)
        try:
            handled = self.start(request, context, services)
        except Exception as error:  # noqa: BLE001 - it becomes an answer
            handled = self._refused(request, context, services, error)
        if not isinstance(handled, Promise):
            return self._sent(handled, context, services)
        answer: Promise[Answer] = Promise(services.scheduler.turn)

        def settle(done: Promise[R | Encoded]) -> None:
            # Whatever goes wrong here concerns this client, not the one who kept the promise.
            try:
                try:
                    response = done.result()
                except Exception as error:  # noqa: BLE001 - it becomes an answer
                    response = self._refused(request, context, services, error)
                sent = self._sent(response, context, services)
            except ProtocolViolation as violation:
                answer.fail(violation)
            else:
                answer.fulfil(sent)

        handled.when_done(settle)
        return answer

    async def decided(self, request: Q, context: RequestContext, services: S_contra) -> R | Encoded:
        """The response or refusal; NotController when another controller must be asked."""
        try:
            handled = self.start(request, context, services)
            return await handled if isinstance(handled, Promise) else handled
        except NotController:
            raise
        except Exception as error:  # noqa: BLE001 - it becomes an answer
            return self._refused(request, context, services, error)

    def answer_unsupported(self, context: RequestContext, services: NodeServices) -> Answer:
        if self._unsupported is None:
            return super().answer_unsupported(context, services)
        context.version = 0
        return self.frame(self._unsupported(), context, services)

    # What the client may do

    def start(
        self, request: Q, context: RequestContext, services: S_contra
    ) -> "R | Encoded | Promise[R | Encoded]":
        """Handle the request as far as its client may ask for it; a refusal is raised.

        A promise is returned only for what is not known yet.
        """
        handled: R | Encoded | Coroutine[object, None, R | Encoded]
        if not self._is_judged or not services.authorizer.enforces:
            handled = self.handle(request, context, services)
        elif self._has_many_names(request, context):
            handled = self._judged_in_turns(request, context, services)
        else:
            handled = self._judged(request, context, services)
        if isinstance(handled, (Response, Encoded)):
            return handled
        promise = run(services.scheduler.turn, handled)
        return promise.result() if promise.done else promise

    def _has_many_names(self, request: Q, context: RequestContext) -> bool:
        for whole in self._wholes:
            if len(whole.names(request)) > NAMES_AT_ONCE and whole.applies(context):
                return True
        for each in self._eaches:
            if len(each.items(request)) > NAMES_AT_ONCE and each.applies(context):
                return True
        return False

    def _judged(
        self, request: Q, context: RequestContext, services: S_contra
    ) -> "R | Encoded | Coroutine[object, None, R | Encoded]":
        """Handle what is allowed.

        The authorizer is asked once for each item: it tells what it denies in its log.
        """
        authorizer = services.authorizer
        for whole in self._wholes:
            if whole.applies(context):
                for name in whole.names(request):
                    whole.check(name, context, authorizer)
        denied: _Denied[Q, R] | None = None
        for each in self._eaches:
            if each.applies(context):
                items = each.items(request)
                are_denied = [each.is_denied(item, context, services) for item in items]
                if True in are_denied:
                    denied = denied or _Denied(request, context, self.refuse)
                    denied.take(each, are_denied)
        if denied is None and not self._hidden:
            return self.handle(request, context, services)
        denied = denied or _Denied(request, context, self.refuse)
        return self._handled_in_part(request, context, services, denied)

    async def _judged_in_turns(
        self, request: Q, context: RequestContext, services: S_contra
    ) -> R | Encoded:
        """As ``_judged``; each name is judged by the ACLs of its turn."""
        authorizer = services.authorizer
        for whole in self._wholes:
            if whole.applies(context):
                check = partial(whole.check, context=context, authorizer=authorizer)
                await of_names(context, services, check, whole.names(request))
        denied = _Denied(request, context, self.refuse)
        for each in self._eaches:
            if each.applies(context):
                judge = partial(each.is_denied, context=context, services=services)
                denied.take(each, await of_names(context, services, judge, each.items(request)))
        if denied.additions or self._hidden:
            return await self._handled_in_part(request, context, services, denied)
        handled = self.handle(request, context, services)
        return handled if isinstance(handled, (Response, Encoded)) else await handled

    async def _handled_in_part(
        self,
        request: Q,
        context: RequestContext,
        services: S_contra,
        denied: "_Denied[Q, R]",
    ) -> R | Encoded:
        """What is denied is refused or hidden; the rest is handled, if there is any."""
        response = self._response()
        if denied.is_any_left:
            try:
                handled = self.handle(request, context, services)
                if not isinstance(handled, (Response, Encoded)):
                    handled = await handled
                assert not isinstance(handled, Encoded), "needs look into the response"
                response = handled
            except NotController:
                raise
            except ApiError as refusal:
                response = self.refuse(request, refusal, context.version)
        for need in self._hidden:
            await need.hide(response, context, services)
        for add in denied.additions:
            add(response)
        return response

    # What the client hears

    def _refused(
        self, request: Q, context: RequestContext, services: S_contra, error: Exception
    ) -> R:
        if isinstance(error, ApiError):
            return self.refuse(request, error, context.version)
        # A mistake of ours: the client hears of it, and its other requests go on.
        services.mistakes.exception("a request failed", api=self.name)
        mistake = ApiError("The server experienced an unexpected error")
        return self.refuse(request, mistake, context.version)

    def frame(
        self, response: R | Encoded, context: RequestContext, services: NodeServices
    ) -> bytes:
        """The response as it goes over the wire: length, header, body."""
        if isinstance(response, Encoded):
            body = b"".join(response.parts)
        else:
            out = Writer()
            try:
                response.encode(out, context.version)
            except ValueError as error:
                # Our mistake; but a client that got no answer would wait, and all its others too.
                services.mistakes.exception("a response cannot be encoded", api=self.name)
                raise ProtocolViolation(f"{self.name}: {error}") from error
            body = out.getvalue()
        return self._head(len(body), context) + body

    def _sent(
        self, response: R | Encoded, context: RequestContext, services: NodeServices
    ) -> Answer:
        """As ``frame``; but what is large and shared is not copied for each client."""
        if not isinstance(response, Encoded):
            return self.frame(response, context, services)
        size = sum(map(len, response.parts))
        answer = [self._head(size, context), *response.parts]
        return answer if size >= SHARED_FROM else b"".join(answer)

    def _head(self, size: int, context: RequestContext) -> bytes:
        if context.version >= self._flexible_header_from:
            return _FLEXIBLE_PREFIX.pack(size + 5, context.correlation_id, 0)
        return _PREFIX.pack(size + 4, context.correlation_id)


class _Denied(Generic[Q, R]):
    """What was taken out of a request, because its client may not ask for it."""

    __slots__ = ("_context", "_refuse", "_request", "additions", "is_any_left")

    def __init__(
        self, request: Q, context: RequestContext, refuse: Callable[[Q, ApiError, int], R]
    ) -> None:
        self._request = request
        self._context = context
        self._refuse = refuse
        self.additions: list[Callable[[R], None]] = []
        """What adds the refusals to a response."""
        self.is_any_left = True

    def take(self, each: Each[Q, R, Any, Any], are_denied: Sequence[bool]) -> None:
        """Take those items out of the request of which it is said."""
        add = each.take_denied(self._request, self._context, are_denied, self._refuse)
        if add is not None:
            self.additions.append(add)
            self.is_any_left = self.is_any_left and bool(each.items(self._request))


def by_code(response: type[C]) -> Callable[[object, ApiError, int], C]:
    """Refuse with nothing but the code, and the reason where there is a place for it."""

    def refuse(_request: object, error: ApiError, _version: int) -> C:
        refused = response()
        refused.error_code = int(error.code)
        if isinstance(refused, ExplainedResponse):
            refused.error_message = error.message or None
        return refused

    return refuse


class _Timed(Protocol):
    timeout_ms: int


def client_timeout_ms(request: _Timed) -> int:
    return request.timeout_ms
