"""A request that must be answered before the next is read: what comes next may build on it."""

from tests.network.served_connection import Broker, echo, frame
from tests.turns import TURN, in_turn

from ottla.common.buffers import Answer
from ottla.common.promise import Promise


class LongAndShort(Broker):
    """Requests ``long`` wait for ``later``; all others are answered at once."""

    def __init__(self) -> None:
        self.later: Promise[Answer] = Promise(TURN)
        super().__init__(self._answer_one)

    def _answer_one(self, body: bytes) -> "Answer | Promise[Answer]":
        if body != b"long":
            return echo(body)
        self.connection.answer_first(self.later)
        return self.later


def test_what_comes_next_waits_until_the_long_one_is_answered() -> None:
    broker = LongAndShort()
    broker.receive(frame(b"long") + frame(b"next") + frame(b"last")[:3])
    assert broker.requests == [b"long"]
    assert not broker.reads()
    in_turn(broker.later.fulfil, echo(b"long"))
    broker.scheduler.run_for(0.1)
    assert broker.requests == [b"long", b"next"]
    broker.receive(frame(b"last")[3:])
    assert broker.sent == echo(b"long") + echo(b"next") + echo(b"last")


def test_a_connection_that_was_closed_meanwhile_reads_no_more() -> None:
    broker = LongAndShort()
    broker.receive(frame(b"long"))
    broker.connection.close()
    in_turn(broker.later.fulfil, echo(b"long"))
    assert not broker.reads()


def test_one_that_is_known_already_holds_up_nothing() -> None:
    broker = LongAndShort()
    in_turn(broker.later.fulfil, echo(b"long"))
    broker.receive(frame(b"long") + frame(b"next"))
    broker.scheduler.run_for(0.1)
    assert broker.sent == echo(b"long") + echo(b"next")
    assert broker.reads()
