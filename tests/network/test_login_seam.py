"""A connection's principal, and the end of one whose login has failed."""

from tests.network.served_connection import Broker
from tests.network.served_connection import frame as framed
from tests.turns import TURN

from ottla.common.authorization import ANONYMOUS, Principal
from ottla.common.buffers import Answer
from ottla.common.promise import Promise
from ottla.network.connection import Connection

ALICE = Principal("User", "alice")


def other(_connection: Connection, _frame: memoryview) -> "Answer | Promise[Answer] | None":
    return framed(b"other")


def test_a_connection_is_nobodys_until_somebody_has_logged_in() -> None:
    broker = Broker(frame_limit=10)
    assert broker.connection.principal == ANONYMOUS
    broker.connection.logged_in(ALICE, other, frame_limit=20)
    assert broker.connection.principal == ALICE
    broker.receive(framed(bytes(15)))
    assert broker.sent == framed(b"other")
    assert not broker.requests
    broker.receive(framed(bytes(21)))
    assert broker.connection.closed


def test_one_that_ends_sends_what_it_owes_and_reads_nothing_more() -> None:
    promise: Promise[Answer]

    def answering(_body: bytes) -> Promise[Answer]:
        nonlocal promise
        promise = Promise(TURN)
        broker.connection.end()
        return promise

    broker = Broker(answering)
    broker.receive(framed(b"wrong password") + framed(b"more"), framed(b"and more"))
    assert broker.requests == [b"wrong password"]
    assert not broker.reads()
    broker.socket.room = 3
    promise.fulfil(framed(b"refused"))
    assert not broker.closed
    broker.socket.room = 100
    broker.network.run()
    assert broker.sent == framed(b"refused")
    assert broker.closed == [broker.connection]
    assert broker.requests == [b"wrong password"]
