"""A connection reads frames however they come in pieces, and answers in the order of requests.

The socket is in memory and does what the test says: any cut, any short send. The answering function
stands in for the dispatcher. Each limit has a test that holds it, and each way of breaking the
protocol one that shows that only the one connection ends.
"""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.memory_network import UNLIMITED
from tests.network.served_connection import (
    Broker,
    FileRegion,
    MemoryFile,
    echo,
    frame,
)
from tests.turns import TURN

from ottla.common.buffers import Answer
from ottla.common.errors import ProtocolViolation
from ottla.common.promise import Promise
from ottla.network.connection import (
    IN_FLIGHT_LIMIT,
    TURN_SECONDS,
    UNSENT_LIMIT,
)

# Reading


def test_a_frame_that_comes_whole_is_answered_at_once() -> None:
    broker = Broker()
    broker.receive(frame(b"hello"))
    assert broker.sent == echo(b"hello")


def test_frames_that_come_together_are_all_answered_in_one_turn() -> None:
    broker = Broker()
    broker.receive(frame(b"a") + frame(b"b") + frame(b"c"))
    assert broker.sent == echo(b"a") + echo(b"b") + echo(b"c")
    assert broker.socket.sends == 1


BODIES = [b"first", b"x" * 300, b"s", b"last one"]


@pytest.mark.parametrize("cut", range(1, len(b"".join(map(frame, BODIES)))))
def test_frames_may_be_cut_at_any_byte(cut: int) -> None:
    stream = b"".join(map(frame, BODIES))
    broker = Broker()
    broker.receive(stream[:cut], stream[cut:])
    assert broker.requests == BODIES
    assert broker.sent == b"".join(map(echo, BODIES))
    assert broker.memory.taken == 0


def test_frames_may_come_byte_by_byte() -> None:
    stream = b"".join(map(frame, BODIES))
    broker = Broker()
    broker.receive(*(stream[i : i + 1] for i in range(len(stream))))
    assert broker.requests == BODIES


@given(
    st.lists(st.binary(min_size=1, max_size=400), max_size=8),
    st.lists(st.integers(1, 200), min_size=1),
    st.integers(8, 300),
)
def test_however_frames_are_cut_and_however_small_the_buffer_the_requests_are_the_same(
    bodies: list[bytes], sizes: list[int], buffer_size: int
) -> None:
    stream = b"".join(map(frame, bodies))
    pieces: list[bytes] = []
    while stream:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[:size])
        stream = stream[size:]
    broker = Broker(buffer_size=buffer_size)
    broker.receive(*pieces)
    assert broker.requests == bodies
    assert broker.sent == b"".join(map(echo, bodies))
    assert broker.memory.taken == 0


def test_a_frame_larger_than_the_shared_buffer_gets_one_of_its_own() -> None:
    broker = Broker(buffer_size=64)
    body = bytes(range(256)) * 2000
    broker.receive(frame(body))
    assert broker.requests == [body]


def test_room_for_a_frame_grows_with_what_has_come_not_with_what_was_announced() -> None:
    broker = Broker(frame_limit=1 << 30)
    broker.receive(pack(">i", 1 << 30) + b"only this")
    partial = broker.connection._partial
    assert partial is not None
    assert len(partial) < 1 << 20


def test_a_request_that_wants_no_answer_gets_none_and_does_not_hold_up_the_next() -> None:
    broker = Broker(lambda body: None if body == b"silent" else echo(body))
    broker.receive(frame(b"silent") + frame(b"loud"))
    assert broker.sent == echo(b"loud")


# Order


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_answers_leave_in_the_order_of_their_requests(
    order: list[int], immediate: set[int]
) -> None:
    promises: dict[int, Promise[Answer]] = {}

    def answering(body: bytes) -> Answer | Promise[Answer]:
        number = body[0]
        if number in immediate:
            return echo(body)
        promises[number] = Promise(TURN)
        return promises[number]

    broker = Broker(answering)
    broker.receive(b"".join(frame(bytes([i])) for i in range(6)))
    for number in order:
        if number in promises:
            promises[number].fulfil(echo(bytes([number])))
    assert broker.sent == b"".join(echo(bytes([i])) for i in range(6))


def test_an_answer_that_is_done_early_waits_for_the_one_before_it() -> None:
    first: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda body: first if body == b"slow" else echo(body))
    broker.receive(frame(b"slow") + frame(b"fast"))
    assert broker.sent == b""
    first.fulfil(echo(b"slow"))
    assert broker.sent == echo(b"slow") + echo(b"fast")


def test_an_answer_for_a_connection_that_is_gone_is_dropped() -> None:
    promise: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: promise)
    broker.receive(frame(b"x"))
    broker.connection.close()
    promise.fulfil(echo(b"x"))
    assert broker.sent == b""


# Back-pressure


def test_a_connection_with_too_many_unanswered_requests_is_not_read_from() -> None:
    promises: list[Promise[Answer]] = []

    def answering(_: bytes) -> Promise[Answer]:
        promises.append(Promise(TURN))
        return promises[-1]

    broker = Broker(answering)
    broker.receive(*([frame(b"x")] * (IN_FLIGHT_LIMIT + 10)))
    assert len(broker.requests) == IN_FLIGHT_LIMIT
    assert not broker.reads()
    promises[0].fulfil(echo(b"x"))
    broker.network.run()
    assert len(broker.requests) == IN_FLIGHT_LIMIT + 1


def test_frames_of_one_read_are_taken_up_to_the_limit_however_many_answers_go_at_once() -> None:
    promises: list[Promise[Answer]] = []

    def answering(_: bytes) -> Promise[Answer]:
        promises.append(Promise(TURN))
        return promises[-1]

    broker = Broker(answering)
    broker.receive(frame(b"x") * (5 * IN_FLIGHT_LIMIT))
    for number in range(1, 6):
        assert len(broker.requests) == number * IN_FLIGHT_LIMIT
        owed = promises[:]
        promises.clear()

        def answer_all(owed: list[Promise[Answer]] = owed) -> None:
            for promise in owed:
                promise.fulfil(echo(b"x"))

        TURN.run(answer_all)
        broker.scheduler.run_for(1)
    assert broker.sent == echo(b"x") * len(broker.requests)


def test_a_reader_that_does_not_read_is_not_read_from() -> None:
    broker = Broker(lambda _: frame(bytes(UNSENT_LIMIT // 4)))
    broker.socket.room = 0
    broker.receive(*([frame(b"x")] * 10))
    assert len(broker.requests) == 4
    assert not broker.reads()
    broker.socket.room = UNLIMITED
    broker.network.run()
    assert len(broker.requests) == 10
    assert len(broker.sent) == 10 * (4 + UNSENT_LIMIT // 4)


@pytest.mark.parametrize("cut", [0, 3, 6])
def test_frames_of_one_read_that_take_too_long_let_others_have_their_turn(cut: int) -> None:
    broker = Broker()
    broker.scheduler.step_seconds = TURN_SECONDS * 2
    whole = b"".join(frame(b"%d" % number) for number in range(5))
    broker.receive(whole[: len(whole) - cut])
    assert broker.requests == [b"0"]
    assert not broker.reads()
    broker.scheduler.step()
    assert broker.requests == [b"0", b"1"]
    broker.scheduler.run_for(60)
    if cut:
        broker.receive(whole[len(whole) - cut :])
        broker.scheduler.run_for(60)
    assert broker.requests == [b"0", b"1", b"2", b"3", b"4"]
    assert broker.sent == b"".join(echo(b"%d" % number) for number in range(5))
    assert broker.reads()


def test_frames_of_one_read_wait_while_their_answers_are_not_read() -> None:
    broker = Broker(lambda _: frame(bytes(UNSENT_LIMIT // 4)))
    broker.socket.room = 0
    broker.receive(frame(b"x") * 10)
    assert len(broker.requests) == 4
    broker.scheduler.run_for(60)
    assert len(broker.requests) == 4
    broker.socket.room = UNLIMITED
    broker.network.run()
    broker.scheduler.run_for(60)
    broker.network.run()
    assert len(broker.requests) == 10
    assert len(broker.sent) == 10 * (4 + UNSENT_LIMIT // 4)


def test_files_that_wait_to_be_sent_do_not_count_as_memory() -> None:
    file = MemoryFile(bytes(2 * UNSENT_LIMIT))
    broker = Broker(lambda _: [b"h", FileRegion(file, 0, 2 * UNSENT_LIMIT)])
    broker.socket.room = 0
    broker.receive(frame(b"x"))
    assert broker.reads()


def test_a_frame_that_finds_no_memory_waits_and_is_read_when_there_is_some() -> None:
    broker = Broker()
    broker.memory.refusing = True
    broker.receive(frame(b"long one")[:6])
    assert not broker.reads()
    broker.memory.refusing = False
    broker.connection.memory_is_free()
    broker.receive(frame(b"long one")[6:])
    assert broker.requests == [b"long one"]
    assert broker.memory.taken == 0


def test_a_request_that_is_held_without_room_for_more_ends_the_reading() -> None:
    """Until it is let go, though its answer may be owed for long."""
    promise: Promise[Answer] = Promise(TURN)

    def answering(body: bytes) -> Answer | Promise[Answer]:
        if body != b"held":
            return echo(body)
        broker.connection.hold(4)
        return promise

    broker = Broker(answering)
    broker.memory.refusing = True
    broker.receive(frame(b"held") + frame(b"next"))
    assert (broker.requests, broker.memory.taken, broker.reads()) == ([b"held"], 4, False)
    broker.memory.refusing = False
    broker.connection.let_go(4)
    broker.connection.memory_is_free()
    broker.scheduler.run_for(1)
    assert (broker.requests, broker.memory.taken) == ([b"held", b"next"], 0)
    assert broker.reads()


def test_an_answer_that_leaves_does_not_wake_a_connection_that_waits_for_memory() -> None:
    promise: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda body: promise if body == b"slow" else echo(body))
    broker.memory.refusing = True
    broker.receive(frame(b"slow") + frame(b"no room")[:7])
    promise.fulfil(echo(b"slow"))
    assert not broker.reads()
    broker.memory.refusing = False
    broker.connection.memory_is_free()
    broker.receive(frame(b"no room")[7:])
    assert broker.requests == [b"slow", b"no room"]


def test_memory_does_not_wake_a_connection_that_owes_too_many_answers() -> None:
    promises: list[Promise[Answer]] = []

    def answering(_: bytes) -> Promise[Answer]:
        promises.append(Promise(TURN))
        return promises[-1]

    broker = Broker(answering)
    broker.memory.refusing = True
    broker.receive(frame(b"x") * IN_FLIGHT_LIMIT + frame(b"no room")[:7])
    broker.memory.refusing = False
    broker.connection.memory_is_free()
    assert not broker.reads()
    promises[0].fulfil(echo(b"x"))
    broker.scheduler.run_for(1)
    assert broker.reads()


def test_whole_frames_take_no_memory() -> None:
    broker = Broker()
    broker.memory.refusing = True
    broker.receive(frame(b"whole"))
    assert broker.requests == [b"whole"]


# Limits and ends


@pytest.mark.parametrize("whole", [True, False])
def test_a_frame_over_the_limit_ends_the_connection_before_anything_is_kept(*, whole: bool) -> None:
    broker = Broker(frame_limit=100)
    data = frame(bytes(101))
    broker.receive(data if whole else data[:4])
    assert broker.connection.closed
    assert broker.requests == []
    assert broker.memory.taken == 0
    assert broker.closed == [broker.connection]


def test_a_frame_of_exactly_the_limit_is_read() -> None:
    broker = Broker(frame_limit=100)
    broker.receive(frame(bytes(100)))
    assert broker.requests == [bytes(100)]


@pytest.mark.parametrize("length", [-1, -2, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_hostile_length_ends_the_connection_however_it_comes(length: int, cut: int) -> None:
    broker = Broker()
    prefix = pack(">i", length)
    broker.receive(frame(b"good") + prefix[:cut], prefix[cut:] + b"rest")
    assert broker.connection.closed
    assert broker.sent == echo(b"good")
    assert broker.memory.taken == 0


def test_an_empty_frame_in_pieces_ends_the_connection() -> None:
    broker = Broker()
    broker.receive(b"\x00\x00", b"\x00\x00")
    assert broker.connection.closed


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_peer_that_breaks_the_protocol_loses_its_connection_and_no_memory(pieces: int) -> None:
    def refusing(_: bytes) -> Answer:
        raise ProtocolViolation("no Kafka")

    broker = Broker(refusing)
    data = frame(b"garbage")
    broker.receive(*([data] if pieces == 1 else [data[:6], data[6:]]))
    assert broker.connection.closed
    assert broker.socket.closed
    assert broker.memory.taken == 0


def test_a_peer_that_goes_in_the_middle_of_a_frame_gives_its_memory_back() -> None:
    broker = Broker()
    broker.receive(frame(bytes(1000))[:500])
    assert broker.memory.taken == 1000
    broker.socket.peer_gone = True
    broker.network.run()
    assert broker.connection.closed
    assert broker.memory.taken == 0


def test_a_broken_socket_ends_the_connection_once() -> None:
    promise: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: promise)
    broker.receive(frame(b"x"))
    broker.socket.broken = True
    promise.fulfil(echo(b"x"))
    broker.connection.close()
    assert broker.closed == [broker.connection]
    assert not broker.network.readers
    assert not broker.network.writers


def test_a_socket_that_breaks_while_answers_wait_is_forgotten() -> None:
    broker = Broker()
    broker.socket.room = 3
    broker.receive(frame(b"x"))
    assert broker.network.writers
    broker.socket.broken = True
    broker.socket.room = UNLIMITED
    broker.network.run()
    assert broker.connection.closed
    assert not broker.network.writers


def test_nothing_is_read_after_the_frame_that_ended_the_connection() -> None:
    def closing(body: bytes) -> Answer:
        if body == b"bad":
            raise ProtocolViolation("no Kafka")
        return echo(body)

    broker = Broker(closing)
    broker.receive(frame(b"good") + frame(b"bad") + frame(b"never"))
    assert broker.requests == [b"good", b"bad"]
    assert broker.connection.closed


@pytest.mark.parametrize("end", [frame(b"bad"), b""])
def test_what_came_before_the_end_in_the_same_turn_is_answered(end: bytes) -> None:
    """The end may be a frame that is no Kafka, or the peer's own."""
    promises: list[Promise[Answer]] = []

    def answering(body: bytes) -> Answer | Promise[Answer]:
        if body == b"bad":
            raise ProtocolViolation("no Kafka")
        if body == b"now":
            return echo(body)
        promises.append(Promise(TURN))
        return promises[-1]

    broker = Broker(answering)

    def come() -> None:
        broker.socket.incoming.append(frame(b"now") + frame(b"in this turn"))
        broker.network.run()
        if end:
            broker.socket.incoming.append(end + frame(b"never"))
        broker.socket.peer_gone = True
        broker.network.run()
        assert not broker.reads()
        TURN.enqueue(lambda: promises[0].fulfil(echo(b"in this turn")))

    TURN.run(come)
    assert broker.sent == echo(b"now") + echo(b"in this turn")
    assert broker.socket.closed
    assert broker.closed == [broker.connection]


def test_a_connection_waits_for_us_until_the_answer_is_its_own_to_read() -> None:
    promise: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: promise)
    waits = [broker.connection.waits_for_us]
    broker.receive(frame(b"x"))
    waits.append(broker.connection.waits_for_us)
    broker.socket.room = 2
    promise.fulfil(echo(b"x"))
    waits.append(broker.connection.waits_for_us)
    broker.socket.room = UNLIMITED
    broker.network.run()
    waits.append(broker.connection.waits_for_us)
    assert waits == [False, True, False, False]


def test_an_answer_that_fails_ends_its_connection_and_nobody_elses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What waits behind it would wait for ever; what is told behind it must be told."""
    promise: Promise[Answer] = Promise(TURN)
    broker = Broker(lambda _: promise)
    broker.receive(frame(b"x") + frame(b"behind it"))
    heard: list[bool] = []
    promise.when_done(lambda done: heard.append(done.done))
    promise.fail(KeyError("a mistake of ours"))
    assert broker.connection.closed
    assert heard == [True]
    assert "an internal error of the broker" in caplog.text
