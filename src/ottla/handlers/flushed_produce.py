"""Produce to topics that want a flush before the answer (``flush.messages``).

The flush runs in the background, together with those of other requests; until it is done neither
the producer nor any consumer hears of the records. A flush that fails is a refusal, and its
directory is offline. With acks=all the answer then waits for the followers.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.handlers.acknowledged_produce import Finish, Unacknowledged, finish_when_acknowledged
from ottla.handlers.produce_outcomes import Refused
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.results import AppendInfo


class Unflushed(NamedTuple):
    """An append that is not on disk yet, and where its outcome stands."""

    partition: Partition
    info: AppendInfo
    results: list[Appended | Refused]
    number: int
    size: int


def appended(index: int, info: AppendInfo) -> Appended:
    return index, info.first_offset, info.append_time, info.log_start_offset


def finish_when_flushed(
    unflushed: list[Unflushed],
    pending: list[Unacknowledged],
    finish: Finish,
    replicas: Replicas,
    request: ProduceView,
    *,
    refused: bool,
) -> Answer | Promise[Answer] | None:
    """The answer, when all is on disk; a producer that wants none is not kept waiting."""
    promise: Promise[Answer] = Promise()
    left = len(unflushed)
    any_refused = refused

    def settle(each: Unflushed) -> Callable[[Promise[None]], None]:
        def settled(done: Promise[None]) -> None:
            nonlocal left, any_refused
            try:
                done.result()
            except ApiError as error:
                any_refused = True
                each.results[each.number] = Refused(each.partition.index, error, each.partition)
            else:
                each.partition.appended(each.size)
                pending.append(
                    Unacknowledged(each.partition, each.info.last_offset, each.results, each.number)
                )
            left -= 1
            if left == 0:
                replicas.waiting.finish_soon(())
                if request.acks != 0:
                    _finish(pending, finish, replicas, request, any_refused, promise)

        return settled

    for each in unflushed:
        replicas.flush(each.partition.log).when_done(settle(each))
    if request.acks == 0:
        return finish(refused=refused)
    return promise.result() if promise.done else promise


def _finish(
    pending: list[Unacknowledged],
    finish: Finish,
    replicas: Replicas,
    request: ProduceView,
    refused: bool,
    promise: Promise[Answer],
) -> None:
    """Answer, when the followers have it too, if that was asked for."""
    waits = [
        one
        for one in pending
        if request.acks == -1 and one.partition.log.high_watermark <= one.last_offset
    ]
    if not waits:
        answer = finish(refused=refused)
        assert answer is not None
        promise.fulfil(answer)
        return
    acknowledged = finish_when_acknowledged(
        waits, finish, replicas, request.timeout_ms, refused=refused
    )
    acknowledged.when_done(lambda done: promise.fulfil(done.result()))
