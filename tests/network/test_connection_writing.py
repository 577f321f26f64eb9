"""Answers leave at the end of their turn, in order and whole, whatever the socket takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.memory_network import UNLIMITED
from tests.network.served_connection import Broker, FileRegion, MemoryFile, echo, frame
from tests.turns import TURN

from ottla.common.buffers import Answer, Region
from ottla.common.promise import Promise
from ottla.network.connection import (
    GATHERED_BYTES,
    JOINED_BYTES,
    SMALL_FILE_REGION,
)


def test_answers_of_one_turn_leave_by_one_send_whenever_in_it_they_are_there() -> None:
    promises: list[Promise[Answer]] = [Promise(TURN) for _ in range(10)]
    waiting = iter(promises)
    broker = Broker(lambda body: echo(body) if body == b"now" else next(waiting))
    broker.receive((frame(b"now") + frame(b"later")) * 10)
    assert broker.socket.sends == 1
    assert broker.sent == echo(b"now")

    def complete() -> None:
        for promise in promises:
            promise.fulfil(echo(b"later"))
        assert broker.socket.sends == 1, "sent within the turn"

    TURN.run(complete)
    assert broker.socket.sends == 2
    assert broker.sent == (echo(b"now") + echo(b"later")) * 10


@pytest.mark.parametrize(("frames", "is_crowd"), [(1, False), (2, True), (10, True)])
def test_frames_that_come_by_one_read_are_a_crowd(frames: int, is_crowd: bool) -> None:
    seen: list[bool] = []

    def answer(body: bytes) -> bytes:
        seen.append(TURN.is_crowd)
        return echo(body)

    Broker(answer).receive(frame(b"x") * frames)
    assert seen == [is_crowd] * frames


def test_answers_leave_behind_all_that_is_done_in_their_turn() -> None:
    broker = Broker()
    sent_before: list[bytes] = []
    broker.socket.incoming.append(frame(b"x"))

    def come() -> None:
        broker.network.run()
        TURN.enqueue(lambda: sent_before.append(broker.sent))

    TURN.run(come)
    assert sent_before == [b""]
    assert broker.sent == echo(b"x")


def test_many_answers_of_one_turn_do_not_wait_for_its_end() -> None:
    size = GATHERED_BYTES // 8
    broker = Broker(lambda _: frame(bytes(size - 4)))
    sent: list[int] = []

    def receive() -> None:
        broker.receive(frame(b"x") * 12)
        sent.append(len(broker.sent))

    TURN.run(receive)
    assert sent == [GATHERED_BYTES]
    assert len(broker.sent) == 12 * size


@given(
    st.lists(st.one_of(st.integers(0, 3 * JOINED_BYTES), st.just(-1)), max_size=12),
    st.lists(st.integers(1, 2 * JOINED_BYTES), max_size=12),
)
def test_joined_answers_keep_their_order_among_files_and_large_ones(
    sizes: list[int], rooms: list[int]
) -> None:
    file = MemoryFile(b"f" * (SMALL_FILE_REGION + 1))
    answers: list[Answer] = [
        [b"h", FileRegion(file, 0, SMALL_FILE_REGION + 1)]
        if size < 0
        else frame(bytes([number]) * size)
        for number, size in enumerate(sizes)
    ]
    waiting = iter(answers)
    broker = Broker(lambda _: next(waiting))
    broker.socket.room = 0 if rooms else UNLIMITED
    broker.receive(frame(b"x") * len(sizes))
    for room in rooms:
        broker.socket.room = room
        broker.network.run()
    broker.socket.room = UNLIMITED
    for _ in range(3):
        broker.network.run()
        broker.scheduler.run_for(1)
    assert broker.sent == b"".join(
        answer if isinstance(answer, bytes) else b"h" + file.data for answer in answers
    )


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 6))
def test_short_sends_lose_and_reorder_nothing(rooms: list[int], count: int) -> None:
    broker = Broker(lambda body: frame(body * 40))
    broker.socket.room = 0
    bodies = [bytes([65 + i]) for i in range(count)]
    broker.receive(b"".join(map(frame, bodies)))
    expected = b"".join(frame(body * 40) for body in bodies)
    for _ in range(len(expected)):
        for room in rooms:
            broker.socket.room = room
            broker.network.run()
    assert broker.sent == expected
    assert not broker.network.writers


@given(
    st.integers(0, 40_000),
    st.integers(0, 40_000),
    st.lists(st.integers(50, 30_000), min_size=1, max_size=5),
)
def test_an_answer_of_bytes_and_files_goes_out_whole_whatever_the_socket_takes(
    first: int, second: int, rooms: list[int]
) -> None:
    file = MemoryFile(bytes(range(256)) * 400)
    answer: list[bytes | Region] = [
        *(b"head", FileRegion(file, 7, first), b"middle"),
        *(FileRegion(file, 99, second), b"end"),
    ]
    broker = Broker(lambda _: answer)
    broker.socket.room = rooms[0]
    broker.receive(frame(b"fetch") + frame(b"again"))
    turn = 0
    while broker.network.writers:
        turn += 1
        broker.socket.room = rooms[turn % len(rooms)]
        broker.network.run()
    expected = b"head" + file.read_at(7, first) + b"middle" + file.read_at(99, second) + b"end"
    assert broker.sent == expected * 2


def test_large_regions_are_sent_from_the_file_and_small_ones_copied() -> None:
    file = MemoryFile(bytes(100_000))
    broker = Broker(lambda body: [b"h", FileRegion(file, 0, int(body))])
    broker.receive(frame(b"%d" % SMALL_FILE_REGION))
    assert broker.socket.files_sent == 0
    broker.receive(frame(b"%d" % (SMALL_FILE_REGION + 1)))
    assert broker.socket.files_sent == 1


@pytest.mark.parametrize("size", [SMALL_FILE_REGION, 50_000])
def test_a_file_that_was_cut_under_an_answer_ends_the_connection(size: int) -> None:
    # What follows must not be taken for the records that are missing.
    file = MemoryFile(bytes(size - 1))
    broker = Broker(lambda _: [b"head", FileRegion(file, 0, size), b"tail"])
    broker.receive(frame(b"fetch"))
    assert broker.connection.closed
    assert not broker.sent.endswith(b"tail")
