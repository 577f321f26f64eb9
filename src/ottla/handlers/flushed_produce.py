"""Produce to topics that want a flush before the answer (``flush.messages``).

The flush runs in the background, together with those of other requests; until it is done neither
the producer nor any consumer hears of the records. A flush that fails is a refusal, and its
directory is offline.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.handlers.produce_outcomes import Refused
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


class Finish(Protocol):
    def __call__(self, *, refused: bool) -> Answer | None: ...


def appended(index: int, info: AppendInfo) -> Appended:
    return index, info.first_offset, info.append_time, info.log_start_offset


def finish_when_flushed(
    unflushed: list[Unflushed], finish: Finish, replicas: Replicas, acks: int, *, refused: bool
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
            left -= 1
            if left == 0:
                replicas.waiting.finish_soon(())
                if acks != 0:
                    answer = finish(refused=any_refused)
                    assert answer is not None
                    promise.fulfil(answer)

        return settled

    for each in unflushed:
        replicas.flush(each.partition.log).when_done(settle(each))
    if acks == 0:
        return finish(refused=refused)
    return promise.result() if promise.done else promise
