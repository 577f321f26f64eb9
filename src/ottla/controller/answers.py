"""Which requests a controller answers, and how: one table, typed by each request's response."""

from collections.abc import Callable
from typing import TypeVar, cast

from ottla.common.authorization import Client
from ottla.common.promise import Promise
from ottla.controller.charges import Charging
from ottla.protocol.message import Message, Request, RequestClass, Response

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Response)


class Answers:
    def __init__(self) -> None:
        self._by_key: dict[int, Callable[..., object]] = {}

    def to(self, request: RequestClass[Q, R], answer: Callable[[Q], Promise[R]]) -> None:
        """From now on requests of this class are answered so."""
        self._by_key[request.API_KEY] = lambda asked, _client, _charge: answer(asked)

    def to_client(
        self, request: RequestClass[Q, R], answer: Callable[[Q, Client], Promise[R]]
    ) -> None:
        """The same, for requests whose answer depends on who asks."""

        def ask(asked: Q, client: Client | None, _charge: Charging) -> Promise[R]:
            assert client is not None, "no node asks this for itself"
            return answer(asked, client)

        self._by_key[request.API_KEY] = ask

    def to_charged(
        self, request: RequestClass[Q, R], answer: Callable[[Q, Charging], Promise[R]]
    ) -> None:
        """The same, for what its client pays for."""
        self._by_key[request.API_KEY] = lambda asked, _client, charge: answer(asked, charge)

    def __call__(self, request: Request[R], client: Client | None, charge: Charging) -> Promise[R]:
        """KeyError for a request that no controller is asked."""
        # What has been let in under this key takes this request and gives its response.
        return cast("Promise[R]", self._by_key[request.API_KEY](request, client, charge))
