"""A connection that a quota mutes: answers go out, nothing is read until its time is over."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.network.served_connection import Broker, echo, frame
from tests.turns import TURN, in_turn

from ottla.common.buffers import Answer
from ottla.common.promise import Promise


class Muting(Broker):
    """Mutes for as many seconds as a request says."""

    def __init__(self) -> None:
        super().__init__(self.mute_and_echo)
        self.muted_until = 0.0

    def mute_and_echo(self, body: bytes) -> bytes:
        assert self.scheduler.now >= self.muted_until - 1e-6
        if int(body):
            self.mute(int(body))
        return echo(body)

    def mute(self, seconds: int) -> None:
        self.muted_until = max(self.muted_until, self.scheduler.now + seconds)
        self.connection.mute(seconds)


def test_the_answer_goes_out_and_nothing_is_read_until_the_time_is_over() -> None:
    broker = Muting()
    broker.receive(frame(b"3"))
    assert broker.sent == echo(b"3")
    assert not broker.reads()
    broker.scheduler.run_for(2.9)
    assert not broker.reads()
    broker.scheduler.run_for(0.2)
    assert broker.reads()


def test_what_came_with_a_request_waits_too() -> None:
    broker = Muting()
    broker.receive(frame(b"3") + frame(b"0") + frame(b"0")[:3])
    assert broker.requests == [b"3"]
    broker.scheduler.run_for(3.1)
    broker.receive(frame(b"0")[3:])
    assert broker.requests == [b"3", b"0", b"0"]
    assert broker.sent == echo(b"3") + echo(b"0") * 2


def test_times_do_not_add_up() -> None:
    broker = Muting()
    broker.connection.mute(2)
    broker.connection.mute(5)
    broker.connection.mute(1)
    broker.scheduler.run_for(4.9)
    assert not broker.reads()
    broker.scheduler.run_for(0.2)
    assert broker.reads()


def test_an_answer_that_comes_while_muted_goes_out_and_does_not_end_it() -> None:
    later: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: later)
    broker.receive(frame(b"x"))
    broker.connection.mute(2)
    in_turn(later.fulfil, echo(b"x"))
    assert broker.sent == echo(b"x")
    assert not broker.reads()
    broker.scheduler.run_for(2.1)
    assert broker.reads()


def test_a_muted_connection_ends_as_any_other() -> None:
    broker = Muting()
    broker.receive(frame(b"3"))
    broker.connection.close()
    assert broker.closed == [broker.connection]
    broker.scheduler.run_for(10)
    assert not broker.reads()
    broker.connection.mute(1)
    broker.scheduler.run_for(2)
    assert not broker.reads()


def test_one_that_ends_with_its_last_answer_does_so_while_muted() -> None:
    later: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: later)
    broker.receive(frame(b"x"))
    broker.connection.mute(60)
    broker.connection.end()
    in_turn(later.fulfil, echo(b"x"))
    assert broker.sent == echo(b"x")
    assert broker.closed == [broker.connection]


class MutedAtTimes(RuleBasedStateMachine):
    """Requests in any pieces, mutes of any length: each is answered once, in order, in its time."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Muting()
        self.sent: list[bytes] = []

    @rule(bodies=st.lists(st.sampled_from([b"0", b"0", b"1", b"3"]), min_size=1, max_size=4))
    def send(self, bodies: list[bytes]) -> None:
        self.sent += bodies
        self.broker.receive(b"".join(map(frame, bodies)))

    @rule(seconds=st.integers(1, 4))
    def mute(self, seconds: int) -> None:
        self.broker.mute(seconds)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.broker.scheduler.run_for(seconds)
        self.broker.network.run()

    @invariant()
    def answers_are_in_order(self) -> None:
        handled = self.broker.requests
        assert handled == self.sent[: len(handled)]
        assert self.broker.sent == b"".join(map(echo, handled))

    def teardown(self) -> None:
        for _ in range(4 * len(self.sent) + 5):
            self.wait(1.0)
        assert self.broker.requests == self.sent
        assert self.broker.reads()


MutedAtTimes.TestCase.settings = settings(deadline=None)
TestMutedAtTimes = MutedAtTimes.TestCase
