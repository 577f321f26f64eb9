"""From a frame to the handler that answers it: header, version, contract. The only place for it.

Produce and Fetch take their own way (``handlers.produce``, ``handlers.fetch``): they work in the
frame and never make a coroutine. Every other API goes by its ``Handler`` (:mod:`contract`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import Final, Generic, TypeVar

from ottla.common.buffers import Answer
from ottla.common.errors import ProtocolViolation
from ottla.common.promise import Promise
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.produce_request import skip_tagged_fields
from ottla.requests.context import ControllerServices, NodeServices, Peer, RequestContext, Services
from ottla.requests.contract import Contract, Handler, HotHandler
from ottla.requests.forwarded import Forwarded
from ottla.requests.metering import metered
from ottla.requests.produce_crowd import ProduceCrowd
from ottla.requests.request_counts import TIMED_EACH, RequestCounts
from ottla.requests.table import load, served

S = TypeVar("S", bound=NodeServices)

_HEADER: Final = Struct(">hhih")
_HEADER_SIZE: Final = 10
REQUEST_BYTES_MAX: Final = 16 << 20
"""For requests without records: of many tiny items, objects take many times the bytes."""
ENVELOPE_BYTES_MAX: Final = 64 * 1024
"""What is around a request on its way to the controller."""
_PRODUCE: Final = 0
_PRODUCE_FROM: Final = APIS[_PRODUCE].lowest_version
_PRODUCE_TO: Final = APIS[_PRODUCE].highest_stable_version
_PRODUCE_FLEXIBLE: Final = APIS[_PRODUCE].flexible_from
_FETCH: Final = 1
_FETCH_FROM: Final = APIS[_FETCH].lowest_version
_FETCH_TO: Final = APIS[_FETCH].highest_stable_version
_FETCH_FLEXIBLE: Final = APIS[_FETCH].flexible_from


Answering = Callable[[memoryview, int, RequestContext, S], "Answer | Promise[Answer]"]
"""Frame, where its body begins, the circumstances, the services."""


class Dispatcher(ABC, Generic[S]):
    """Answers the frames of all connections of a kind of listener."""

    bytes_max = REQUEST_BYTES_MAX

    def __init__(self, services: S, *, of_controller: bool) -> None:
        self._services = services
        self._of_controller = of_controller
        self._served = served(of_controller=of_controller)
        self._quotas = services.quotas
        self._found: dict[int, tuple[Contract, Answering[S]]] = {}
        """What was asked for already."""
        self.counts: dict[int, RequestCounts] = {}
        """Of each API that was asked for."""
        self.on_counts: Callable[[int, RequestCounts], None] | None = None
        """Hears of each API that is asked for the first time."""

    def _counts_of(self, key: int) -> RequestCounts:
        counts = self.counts.get(key)
        if counts is None:
            counts = self.counts[key] = RequestCounts(key, self._services.scheduler)
            if self.on_counts is not None:
                self.on_counts(key, counts)
        return counts

    def answer(self, peer: Peer, frame: memoryview) -> "Answer | Promise[Answer] | None":
        if self._quotas.enforces and len(frame) >= _HEADER_SIZE:
            return metered(peer, frame, self._services, self._answer, self._contract)
        return self._answer(peer, frame)

    def _contract(self, key: int) -> Contract:
        """Of a request that was answered."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(ApiKey(key))
        return found[0]

    def _answer(self, peer: Peer, frame: memoryview) -> "Answer | Promise[Answer] | None":
        try:
            key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        except StructError:
            raise ProtocolViolation(f"a request of {len(frame)} bytes") from None
        pos = 10 + client_size if client_size > 0 else 10
        if client_size < -1 or pos > len(frame):
            raise ProtocolViolation(f"a client id of {client_size} bytes")
        if len(frame) > self.bytes_max:
            raise ProtocolViolation(f"a request of {len(frame)} bytes that carries no records")
        client_id = None
        if client_size >= 0:
            try:
                client_id = str(frame[10:pos], "utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolViolation("a client id that is no text") from error
        context = RequestContext(
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            peer=peer,
            principal=peer.principal,
            of_controller=self._of_controller,
        )
        found = self._found.get(key)
        if found is None:
            if key not in self._served:
                raise ProtocolViolation(f"a request of the unknown kind {key}")
            found = self._found[key] = self._find(ApiKey(key))
        contract, answer = found
        context.request_name = contract.name
        if not contract.lowest <= version <= contract.highest:
            return contract.answer_unsupported(context, self._services)
        if version >= contract.flexible_from:
            pos = skip_tagged_fields(frame, pos)
        counts = self._counts_of(key)
        counts.by_version[version] += 1
        began = counts.now()
        answered = answer(frame, pos, context, self._services)
        counts.timed(began, answered)
        if (contract.is_kept or context.is_long) and isinstance(answered, Promise):
            # It may be large, and wait as long as there is no controller, or for other clients.
            if context.is_long:
                peer.answer_first(answered)
            size = len(frame)
            peer.hold(size)
            answered.when_done(lambda _: peer.let_go(size))
        return answered

    @abstractmethod
    def _find(self, key: ApiKey) -> tuple[Contract, Answering[S]]: ...


class ControllerDispatcher(Dispatcher[ControllerServices]):
    """For listeners of controllers."""

    bytes_max = REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX

    def __init__(self, services: ControllerServices) -> None:
        super().__init__(services, of_controller=True)

    def _find(self, key: ApiKey) -> tuple[Contract, Answering[ControllerServices]]:
        found = load(key, of_controller=True)
        assert isinstance(found, Handler)
        return found, found.answer


class BrokerDispatcher(Dispatcher[Services]):
    """For listeners of brokers, where Produce and Fetch have a way of their own."""

    def __init__(self, services: Services) -> None:
        super().__init__(services, of_controller=False)
        produce = _hot(ApiKey.PRODUCE)
        assert produce.answer_together is not None
        self._produce = produce.answer
        self._crowd = ProduceCrowd(services, produce.answer_together)
        self._fetch = _hot(ApiKey.FETCH).answer
        self._produced = self._counts_of(_PRODUCE)
        self._fetched = self._counts_of(_FETCH)
        self._untimed = 0
        """Produce and Fetch requests since the last that was timed."""

    def _answer(self, peer: Peer, frame: memoryview) -> "Answer | Promise[Answer] | None":
        self._untimed += 1
        if self._untimed < TIMED_EACH or len(frame) < _HEADER_SIZE or frame[0] or frame[1] > _FETCH:
            return self._answer_it(peer, frame)
        self._untimed = 0
        counts = self._fetched if frame[1] else self._produced
        began = counts.now()
        answered = self._answer_it(peer, frame)
        counts.timed(began, answered)
        return answered

    def _answer_it(self, peer: Peer, frame: memoryview) -> "Answer | Promise[Answer] | None":
        if len(frame) < _HEADER_SIZE:
            return super()._answer(peer, frame)
        key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        if key != _PRODUCE or self._quotas.enforces:
            self._crowd.answer_before(peer)
        if key > _FETCH or client_size < -1:
            return super()._answer(peer, frame)
        pos = 10 + client_size if client_size > 0 else 10
        if key == _PRODUCE and _PRODUCE_FROM <= version <= _PRODUCE_TO and pos <= len(frame):
            self._produced.by_version[version] += 1
            if version >= _PRODUCE_FLEXIBLE:
                pos = skip_tagged_fields(frame, pos)
            if not self._quotas.enforces:  # with quotas, one is counted before the next is read
                waits = self._crowd.take(frame, pos, version, correlation_id, peer)
                if waits is not None:
                    return waits
            return self._produce(frame, pos, version, correlation_id, self._services, peer)
        if (
            key == _FETCH
            and _FETCH_FROM <= version <= _FETCH_TO
            and pos <= len(frame) <= REQUEST_BYTES_MAX
        ):
            self._fetched.by_version[version] += 1
            if version >= _FETCH_FLEXIBLE:
                pos = skip_tagged_fields(frame, pos)
            return self._fetch(frame, pos, version, correlation_id, self._services, peer)
        return super()._answer(peer, frame)

    def _find(self, key: ApiKey) -> tuple[Contract, Answering[Services]]:
        found = load(key, of_controller=False)
        if isinstance(found, HotHandler):
            return found, _never
        assert isinstance(found, Handler)
        return found, Forwarded(found).answer if found.is_passed_on else found.answer


def _hot(key: ApiKey) -> HotHandler:
    found = load(key, of_controller=False)
    assert isinstance(found, HotHandler)
    return found


def _never(_frame: memoryview, _pos: int, _context: RequestContext, _services: Services) -> Answer:
    """Whatever is served goes the hot way."""
    raise AssertionError
