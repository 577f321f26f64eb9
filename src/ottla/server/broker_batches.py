"""What is to be asked of other brokers, gathered: one request to each broker at a time.

What comes while a request is under way goes with the next one. So many transactions that end or
begin together cost a broker few requests, and a broker that does not answer holds up only what is
meant for it.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.protocol.message import Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)

REQUEST_MAX: Final = 1_000
"""Questions in one request."""
WAITING_MAX: Final = 10_000
"""Questions that wait for a broker; beyond it they are not asked."""


class Channel(Protocol):
    """The way to other brokers."""

    def send(self, node_id: int, request: Request[R]) -> Promise[R]:
        """Promise the answer; fails with an ``OSError`` when there is none to be had."""
        ...


class BrokerBatches(Generic[T, R]):
    """Questions of one kind, to all brokers.

    ``make`` puts several into one request, ``answered`` hears what became of them: an answer, or
    None when there is none to be had. Those with the same ``key`` never share a request.
    """

    def __init__(
        self,
        channel: Channel,
        scheduler: Scheduler,
        *,
        key: Callable[[T], Hashable],
        make: Callable[[list[T]], Request[R]],
        answered: Callable[[list[T], R | None], None],
        request_max: int = REQUEST_MAX,
    ) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._key = key
        self._make = make
        self._answered = answered
        self._request_max = request_max
        self._waiting: dict[int, list[T]] = {}
        self._under_way: set[int] = set()

    def ask(self, node_id: int, question: T) -> None:
        waiting = self._waiting.setdefault(node_id, [])
        if len(waiting) >= WAITING_MAX:
            self._answered([question], None)
            return
        waiting.append(question)
        if len(waiting) == 1 and node_id not in self._under_way:
            # When the turn of the loop is over: others may have something to ask as well.
            self._scheduler.call_soon(self._send, node_id)

    def _send(self, node_id: int) -> None:
        if node_id in self._under_way or node_id not in self._waiting:
            return
        asked = self._take(node_id)
        self._under_way.add(node_id)
        answer = self._channel.send(node_id, self._make(list(asked.values())))
        answer.when_done(lambda done: self._came(node_id, list(asked.values()), done))

    def _take(self, node_id: int) -> dict[Hashable, T]:
        """As many as may share a request; the others stay."""
        asked: dict[Hashable, T] = {}
        later: list[T] = []
        for question in self._waiting.pop(node_id):
            key = self._key(question)
            if key in asked or len(asked) >= self._request_max:
                later.append(question)
            else:
                asked[key] = question
        if later:
            self._waiting[node_id] = later
        return asked

    def _came(self, node_id: int, asked: list[T], done: Promise[R]) -> None:
        self._under_way.discard(node_id)
        answer: R | None = None
        # Not reached, or of a version that does not know this: the asking side sees to it.
        with suppress(OSError, ValueError):
            answer = done.result()
        if node_id in self._waiting:
            self._scheduler.call_soon(self._send, node_id)
        self._answered(asked, answer)
