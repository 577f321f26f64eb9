"""Produce with acks=all to partitions that have followers: the answer waits for the in-sync ones.

A request waits in one place, whatever the number of its partitions: each of them tells when its
high watermark has passed, or that it is led elsewhere now. What is not acknowledged within the
request's timeout is told as REQUEST_TIMED_OUT; it is written, and may yet be committed.
"""

from functools import partial
from typing import NamedTuple, Protocol

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError, RequestTimedOut
from ottla.common.promise import Promise
from ottla.handlers.produce_outcomes import Refused
from ottla.protocol.produce_response import Appended
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.waiting import WaitingRequest
from ottla.storage.results import AppendInfo


class Finish(Protocol):
    def __call__(self, *, refused: bool) -> Answer | None: ...


class Unacknowledged(NamedTuple):
    """An append that followers do not have yet, and where its outcome stands."""

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


def unacknowledged(
    partition: Partition, info: AppendInfo, results: list[Appended | Refused]
) -> Unacknowledged:
    """An append whose outcome comes next in ``results``."""
    return Unacknowledged(partition, info.last_offset, results, len(results))


class WaitingProduce:
    """One request that waits for its partitions."""

    __slots__ = ("_finish", "_pending", "_refused", "answer", "request")

    def __init__(self, pending: list[Unacknowledged], finish: Finish, *, refused: bool) -> None:
        self._pending: dict[int, Unacknowledged] = dict(enumerate(pending))
        self._finish = finish
        self._refused = refused
        self.answer: Promise[Answer] = Promise()
        self.request: WaitingRequest | None = None

    def is_over(self) -> bool:
        return not self._pending

    def settle(self, number: int, error: ApiError | None) -> None:
        one = self._pending.pop(number, None)
        if one is None:
            return  # it had timed out
        if error is not None:
            self._refused = True
            one.refuse(error)
        if not self._pending:
            assert self.request is not None
            self.request.finish()

    def finish(self) -> None:
        pending, self._pending = self._pending, {}
        for one in pending.values():
            self._refused = True
            one.refuse(RequestTimedOut())
        try:
            answer = self._finish(refused=self._refused)
            assert answer is not None
        except Exception as error:  # noqa: BLE001 - it belongs to the connection
            self.answer.fail(error)
        else:
            self.answer.fulfil(answer)


def finish_when_acknowledged(
    pending: list[Unacknowledged],
    finish: Finish,
    replicas: Replicas,
    timeout_ms: int,
    *,
    refused: bool,
) -> Promise[Answer]:
    """Promise the answer for when all in-sync replicas have what is pending."""
    waiting = WaitingProduce(pending, finish, refused=refused)
    waiting.request = replicas.waiting.add(len(pending), (), timeout_ms, waiting.finish)
    acknowledge_each(waiting, pending)
    return waiting.answer


def acknowledge_each(waiting: WaitingProduce, pending: list[Unacknowledged]) -> None:
    """Settle each when the followers have it, unless the time of the request is over."""
    for number, one in enumerate(pending):
        settle = partial(waiting.settle, number)
        one.partition.acknowledge(one.last_offset, settle, waiting.is_over)
