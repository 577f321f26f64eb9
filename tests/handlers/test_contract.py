"""How a handler may answer: at once or later, with an object or with what is encoded already."""

from collections.abc import Callable, Coroutine

import pytest
from tests.handlers.broker import Broker
from tests.turns import TURN, in_turn

from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode, InvalidRequest
from ottla.common.promise import Promise
from ottla.protocol.encoded import Encoded
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.message import from_bytes, to_bytes
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import SHARED_FROM, Handler, by_code

VERSION = 4
Outcome = Callable[[], HeartbeatResponse | Encoded]


def answered() -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=9)


def refused() -> HeartbeatResponse:
    raise InvalidRequest


def mistaken() -> HeartbeatResponse:
    raise ZeroDivisionError


def encoded() -> Encoded:
    whole = to_bytes(answered(), VERSION)
    return Encoded([whole[:3], whole[3:]])


def plain(outcome: Outcome) -> "Handler[HeartbeatRequest, HeartbeatResponse, Services]":
    def handle(
        _request: HeartbeatRequest, _context: RequestContext, _services: Services
    ) -> HeartbeatResponse | Encoded:
        return outcome()

    return _handler(handle)


def coroutine(
    outcome: Outcome, waits_for: Promise[None] | None = None
) -> "Handler[HeartbeatRequest, HeartbeatResponse, Services]":
    async def handle(
        _request: HeartbeatRequest, _context: RequestContext, _services: Services
    ) -> HeartbeatResponse | Encoded:
        if waits_for is not None:
            await waits_for
        return outcome()

    return _handler(handle)


def _handler(
    handle: Callable[
        [HeartbeatRequest, RequestContext, Services],
        HeartbeatResponse | Encoded | Coroutine[object, None, HeartbeatResponse | Encoded],
    ],
) -> "Handler[HeartbeatRequest, HeartbeatResponse, Services]":
    return Handler(HeartbeatRequest, handle, refuse=by_code(HeartbeatResponse), needs=[])


def ask(
    handler: "Handler[HeartbeatRequest, HeartbeatResponse, Services]", broker: Broker
) -> "Answer | Promise[Answer]":
    frame = memoryview(to_bytes(HeartbeatRequest(group_id="g"), VERSION))
    context = RequestContext(version=VERSION, correlation_id=77)
    return handler.answer(frame, 0, context, broker.services)


OUTCOMES = [
    (answered, ErrorCode.NONE),
    (encoded, ErrorCode.NONE),
    (refused, ErrorCode.INVALID_REQUEST),
    (mistaken, ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("outcome", "code"), OUTCOMES)
def test_a_plain_function_a_coroutine_and_one_that_waits_are_answered_alike(
    outcome: Outcome, code: ErrorCode
) -> None:
    broker = Broker()
    at_once = ask(plain(outcome), broker)
    assert isinstance(at_once, bytes)
    assert at_once[4:9] == b"\x00\x00\x00\x4d\x00"
    assert int.from_bytes(at_once[:4], "big") == len(at_once) - 4
    read = from_bytes(HeartbeatResponse, at_once[9:], VERSION)
    assert read.error_code == code
    assert read.throttle_time_ms == (9 if code is ErrorCode.NONE else 0)
    assert ask(coroutine(outcome), broker) == at_once
    waits: Promise[None] = Promise(TURN)
    later = ask(coroutine(outcome, waits), broker)
    assert isinstance(later, Promise)
    assert not later.done
    in_turn(waits.fulfil, None)
    assert later.result() == at_once
    assert len(broker.mistakes.told) == (3 if outcome is mistaken else 0)


@pytest.mark.parametrize("missing", [0, 1])
def test_what_is_large_and_shared_is_not_copied_for_each_client(missing: int) -> None:
    shared = Encoded([b"x", bytes(SHARED_FROM - 1 - missing)])
    answer = ask(plain(lambda: shared), Broker())
    whole = b"".join(shared.parts)
    if missing:
        assert isinstance(answer, bytes)
        assert answer[9:] == whole
        return
    assert isinstance(answer, list)
    head, *parts = answer
    assert all(mine is part for mine, part in zip(parts, shared.parts, strict=True))
    assert head == (len(whole) + 5).to_bytes(4, "big") + b"\x00\x00\x00\x4d\x00"
