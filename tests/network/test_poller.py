"""All sockets that are ready are one turn, which is bounded; nobody is forgotten or passed over."""

import select
import socket
from collections.abc import Callable, Iterator

import pytest
from tests.turns import TURN

from ottla.network.poller import HAS_EPOLL, SOCKETS_MAX, TURN_SECONDS, Poller

pytestmark = pytest.mark.skipif(not HAS_EPOLL, reason="only Linux has epoll")


class Loop:
    """An event loop that watches descriptors, and goes round when the test says so."""

    def __init__(self) -> None:
        self.watched: dict[int, tuple[Callable[..., object], tuple[object, ...]]] = {}
        self.turns = 0

    def add_reader(self, fd: int, callback: Callable[..., object], /, *args: object) -> None:
        self.watched[fd] = callback, args

    def remove_reader(self, fd: int, /) -> bool:
        return self.watched.pop(fd, None) is not None

    def go_round(self) -> int:
        """How many descriptors were ready."""
        ready, _, _ = select.select(list(self.watched), [], [], 0)
        for fd in ready:
            callback, args = self.watched[fd]
            self.turns += 1
            callback(*args)
        return len(ready)


class Clock:
    """Goes on by ``step`` whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class World:
    def __init__(self) -> None:
        self.loop = Loop()
        self.clock = Clock()
        self.poller = Poller(self.loop, TURN, self.clock)
        self.near: list[socket.socket] = []
        self.far: list[socket.socket] = []
        self.called: list[tuple[int, bytes]] = []

    def connect(self, count: int) -> None:
        for _ in range(count):
            near, far = socket.socketpair()
            near.setblocking(False)
            self.near.append(near)
            self.far.append(far)
            self.watch(len(self.near) - 1)

    def watch(self, number: int) -> None:
        near = self.near[number]
        self.poller.watch_reading(
            near.fileno(), lambda: self.called.append((number, near.recv(100)))
        )

    def say(self, *numbers: int) -> None:
        for number in numbers:
            self.far[number].send(b"x")

    def taken(self) -> list[int]:
        numbers = [number for number, _ in self.called]
        self.called.clear()
        return numbers

    def close(self) -> None:
        for sock in (*self.near, *self.far):
            sock.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def test_all_that_are_ready_are_one_turn_and_one_descriptor_of_the_loop(world: World) -> None:
    world.connect(20)
    assert len(world.loop.watched) == 1
    world.say(*range(20))
    assert world.loop.go_round() == 1
    assert sorted(world.taken()) == list(range(20))
    assert world.loop.turns == 1
    assert world.loop.go_round() == 0


@pytest.mark.parametrize(("count", "is_crowd"), [(1, False), (2, True)])
def test_several_that_are_ready_are_a_crowd(world: World, count: int, is_crowd: bool) -> None:
    world.connect(count)
    seen: list[bool] = []
    for near in world.near:
        world.poller.watch_reading(near.fileno(), lambda: seen.append(TURN.is_crowd))
    world.say(*range(count))
    world.loop.go_round()
    assert seen == [is_crowd] * count


def test_a_turn_is_bounded_in_time_and_what_is_left_comes_before_what_is_newer(
    world: World,
) -> None:
    world.connect(6)
    world.clock.step = TURN_SECONDS * 0.4
    world.say(*range(6))
    order: list[int] = []
    while world.loop.go_round():
        taken = world.taken()
        assert 1 <= len(taken) < 6
        order += taken
        if len(order) < 6:
            world.say(taken[0])  # it is ready again at once, and keeps nobody from their turn
    assert sorted(order[:6]) == list(range(6))


def test_a_turn_is_bounded_in_sockets(world: World) -> None:
    world.connect(SOCKETS_MAX + 3)
    world.say(*range(SOCKETS_MAX + 3))
    world.loop.go_round()
    first = world.taken()
    assert len(first) == SOCKETS_MAX
    world.loop.go_round()
    assert sorted(first + world.taken()) == list(range(SOCKETS_MAX + 3))


def test_what_is_not_watched_is_not_called_even_if_it_was_ready_a_moment_ago(
    world: World,
) -> None:
    world.connect(3)
    world.say(0, 1, 2)
    others = {0: (1, 2), 1: (0, 2), 2: (0, 1)}
    called: list[int] = []

    def stop_others(number: int) -> None:
        called.append(number)
        for other in others[number]:
            world.poller.unwatch_reading(world.near[other].fileno())
        world.near[number].recv(100)

    for number in range(3):
        fd = world.near[number].fileno()
        world.poller.watch_reading(fd, lambda number=number: stop_others(number))  # type: ignore[misc]
    world.loop.go_round()
    assert len(called) == 1
    world.loop.go_round()
    assert len(called) == 1
    for number in others[called[0]]:
        world.watch(number)
    world.loop.go_round()
    assert sorted(world.taken()) == sorted(others[called[0]])


def test_writing_is_watched_beside_reading_and_by_itself(world: World) -> None:
    world.connect(1)
    fd = world.near[0].fileno()
    written: list[bool] = []
    world.poller.watch_writing(fd, lambda: written.append(True))
    world.loop.go_round()
    assert (written, world.taken()) == ([True], [])
    world.say(0)
    world.poller.unwatch_reading(fd)
    world.loop.go_round()
    assert (written, world.taken()) == ([True, True], [])
    world.watch(0)
    world.poller.unwatch_writing(fd)
    world.loop.go_round()
    assert (written, world.taken()) == ([True, True], [0])


def test_a_peer_that_goes_is_told_to_the_reader_or_else_to_the_writer(world: World) -> None:
    world.connect(1)
    world.far[0].close()
    world.loop.go_round()
    assert world.called == [(0, b"")]
    world.called.clear()
    fd = world.near[0].fileno()
    world.poller.unwatch_reading(fd)
    assert world.loop.go_round() == 0
    told: list[bool] = []
    world.poller.watch_writing(fd, lambda: told.append(True))
    world.loop.go_round()
    assert (told, world.called) == ([True], [])


def test_a_loop_without_sockets_watches_nothing(world: World) -> None:
    world.connect(2)
    for near in world.near:
        world.poller.unwatch_reading(near.fileno())
        world.poller.unwatch_writing(near.fileno())
    assert not world.loop.watched
    world.watch(1)
    world.say(1)
    world.loop.go_round()
    assert world.taken() == [1]


def test_a_callback_that_fails_costs_the_others_nothing(world: World) -> None:
    world.connect(3)
    fails = [True]

    def fail() -> None:
        if fails.pop():
            raise KeyError("a mistake of ours")
        world.called.append((1, world.near[1].recv(100)))

    fails.insert(0, False)
    world.poller.watch_reading(world.near[1].fileno(), fail)
    world.say(0, 1, 2)
    with pytest.raises(KeyError):
        world.loop.go_round()
    world.loop.go_round()
    assert sorted(world.taken()) == [0, 1, 2]
