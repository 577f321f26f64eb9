"""Produce to topics that want a flush before the answer (``flush.messages``).

The flush runs in the background, together with those of other requests. Until it is done the
producer hears nothing, and the high watermark does not move for these records, though it may pass
them for others. A flush that fails is a refusal, and its directory is offline. So is one that ends
when this broker has not led all the time: what it has brought to disk may be cut off. With acks=all
the answer then waits for the followers.

A disk may hang. The flush has ``request.timeout.ms`` of this broker, since the producer's own time
is meant for the followers.
"""

from functools import partial
from typing import NamedTuple

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.handlers.acknowledged_produce import (
    Finish,
    Unacknowledged,
    WaitingProduce,
    acknowledge_each,
)
from ottla.handlers.produce_outcomes import Refused
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.results import AppendInfo


class Unflushed(NamedTuple):
    """An append that is not on disk yet, and where its outcome stands."""

    partition: Partition
    leader_epoch: int
    info: AppendInfo
    results: list[Appended | Refused]
    number: int
    size: int


def not_flushed(
    partition: Partition, info: AppendInfo, results: list[Appended | Refused], size: int
) -> Unflushed:
    """An append of this turn, whose outcome comes next in ``results``."""
    return Unflushed(partition, partition.leader_epoch, info, results, len(results), size)


def appended(index: int, info: AppendInfo) -> Appended:
    return index, info.first_offset, info.append_time, info.log_start_offset


def finish_when_flushed(
    unflushed: list[Unflushed],
    pending: list[Unacknowledged],
    finish: Finish,
    replicas: Replicas,
    request: ProduceView,
    flush_timeout_ms: int,
    *,
    refused: bool,
) -> Answer | Promise[Answer] | None:
    """The answer, when all is on disk; a producer that wants none is not kept waiting."""
    if request.acks == 0:
        for each in unflushed:
            flushed = partial(_flushed_for_nobody, each, replicas)
            replicas.flush(each.partition.log).when_done(flushed)
        return finish(refused=refused)
    return _Flushing(unflushed, pending, finish, replicas, request, refused).begin(flush_timeout_ms)


def _flushed_for_nobody(each: Unflushed, replicas: Replicas, done: Promise[None]) -> None:
    _flushed(each, done)
    replicas.waiting.wake()


def _flushed(each: Unflushed, done: Promise[None]) -> ApiError | None:
    """Count what is on disk now; why it does not count."""
    try:
        done.result()
        each.partition.flushed(each.size, each.leader_epoch)
    except ApiError as error:
        return error
    return None


class _Flushing:
    """One request that waits for flushes, and then perhaps for followers.

    Partitions that need no flush wait for their followers from the first: a partition not among
    those that wait is not told when the leadership ends.
    """

    def __init__(
        self,
        unflushed: list[Unflushed],
        pending: list[Unacknowledged],
        finish: Finish,
        replicas: Replicas,
        request: ProduceView,
        refused: bool,
    ) -> None:
        self._unflushed = unflushed
        self._pending = pending
        self._replicas = replicas
        self._wants_followers = request.acks == -1
        self._timeout_ms = request.timeout_ms
        self._left = len(unflushed)
        self._waiting = WaitingProduce(
            [
                *pending,
                *(
                    Unacknowledged(e.partition, e.info.last_offset, e.results, e.number)
                    for e in unflushed
                ),
            ],
            finish,
            refused=refused,
        )

    def begin(self, flush_timeout_ms: int) -> Answer | Promise[Answer]:
        waiting, replicas = self._waiting, self._replicas
        waiting.request = replicas.waiting.add(1, (), flush_timeout_ms, waiting.finish)
        acknowledge_each(waiting, self._pending)
        for number, each in enumerate(self._unflushed, len(self._pending)):
            replicas.flush(each.partition.log).when_done(partial(self._settled, each, number))
        return waiting.answer.result() if waiting.answer.done else waiting.answer

    def _settled(self, each: Unflushed, number: int, done: Promise[None]) -> None:
        waiting = self._waiting
        error = _flushed(each, done)
        self._left -= 1
        if self._left == 0 and waiting.request is not None:
            self._replicas.waiting.postpone(waiting.request, self._timeout_ms)
        if error is not None or not self._wants_followers:
            waiting.settle(number, error)
        elif not waiting.is_over():
            settle = partial(waiting.settle, number)
            each.partition.acknowledge(each.info.last_offset, settle, waiting.is_over)
        self._replicas.waiting.wake()
