"""Produce that is not answered at once: its records are not on disk yet, or not on the followers.

A request waits in one place, whatever the number of its partitions: each of them tells when its
flush is done, when its high watermark has passed, or that it is led elsewhere now. What is not
acknowledged within the request's timeout is told as REQUEST_TIMED_OUT; it is written, and may yet
be committed.

Topics may want a flush before the answer (``flush.messages``). A disk may hang: the flush has
``request.timeout.ms`` of this broker. The producer's own time is meant for the followers, and
begins when all is on disk. Partitions that need no flush wait for their followers from the first:
one that does not wait is not told when the leadership ends.
"""

from functools import partial
from typing import NamedTuple, Protocol

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError, RequestTimedOut
from ottla.common.promise import Promise
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.waiting import WaitingRequest
from ottla.requests.context import Services
from ottla.requests.produce_outcomes import Refused


class Finish(Protocol):
    def __call__(self, *, refused: bool) -> Answer | None: ...


class Unacknowledged(NamedTuple):
    """An append that is not safe yet, and where its outcome stands."""

    partition: Partition
    last_offset: int
    results: list[Appended | Refused]
    number: int

    def refuse(self, error: ApiError) -> None:
        appended = self.results[self.number]
        assert not isinstance(appended, Refused)
        refused = Refused(self.partition.index, error, self.partition)
        refused.appended = appended
        self.results[self.number] = refused


class _WaitingProduce:
    """One request that waits for its partitions."""

    __slots__ = (
        "_finish",
        "_pending",
        "_refused",
        "_replicas",
        "_request",
        "_unflushed",
        "_waiting",
        "answer",
    )

    def __init__(
        self, finish: Finish, replicas: Replicas, request: ProduceView, *, refused: bool
    ) -> None:
        self._pending: dict[int, Unacknowledged] = {}
        self._unflushed = 0
        self._finish = finish
        self._replicas = replicas
        self._request = request
        self._refused = refused
        self._waiting: WaitingRequest | None = None
        self.answer: Promise[Answer] = Promise(replicas.turn)

    def begin(
        self, pending: list[Unacknowledged], unflushed: list[Unacknowledged], timeout_ms: int
    ) -> None:
        self._pending = dict(enumerate([*pending, *unflushed]))
        self._unflushed = len(unflushed)
        self._waiting = self._replicas.waiting.add(1, (), timeout_ms, self._end)
        for number, one in self._pending.items():
            if number >= len(pending):
                flushed = partial(self._flushed, number)
                one.partition.when_flushed(one.last_offset, flushed, self._is_over)
            if self._request.acks == -1:
                settle = partial(self._settle, number)
                one.partition.acknowledge(one.last_offset, settle, self._is_over)

    def _is_over(self) -> bool:
        return not self._pending

    def _flushed(self, number: int, error: ApiError | None) -> None:
        self._unflushed -= 1
        if self._unflushed == 0 and self._waiting is not None:
            self._replicas.waiting.postpone(self._waiting, self._request.timeout_ms)
        if error is not None or self._request.acks != -1:
            self._settle(number, error)

    def _settle(self, number: int, error: ApiError | None) -> None:
        one = self._pending.pop(number, None)
        if one is None:
            return  # it had timed out
        if error is not None:
            self._refused = True
            one.refuse(error)
        if not self._pending:
            assert self._waiting is not None
            self._waiting.finish()

    def _end(self) -> None:
        pending, self._pending = self._pending, {}
        for one in pending.values():
            self._refused = True
            one.refuse(RequestTimedOut())
            one.partition.let_go()
        try:
            answer = self._finish(refused=self._refused)
            assert answer is not None
        except Exception as error:  # noqa: BLE001 - it belongs to the connection
            self.answer.fail(error)
        else:
            self.answer.fulfil(answer)


def finish_when_acknowledged(
    pending: list[Unacknowledged],
    unflushed: list[Unacknowledged],
    finish: Finish,
    services: Services,
    request: ProduceView,
    *,
    refused: bool,
) -> Promise[Answer]:
    """Promise the answer for when all is on disk, and with acks=all on all in-sync replicas."""
    waiting = _WaitingProduce(finish, services.replicas, request, refused=refused)
    timeout_ms = services.config.request_timeout_ms if unflushed else request.timeout_ms
    waiting.begin(pending, unflushed, timeout_ms)
    return waiting.answer
