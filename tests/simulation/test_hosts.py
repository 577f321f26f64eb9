"""Hosts and the ways between them: what a cut, a death and a loss of power look like from afar."""

import pytest

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.network.sockets import StreamSocket
from ottla.simulation.network import SimulatedHost, SimulatedNetwork
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler
from ottla.simulation.sockets import WINDOW_BYTES, SimulatedSocket

PORT = 9


class World:
    """Two hosts; ``far`` listens, and keeps what it gets."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = SimulatedScheduler(Chance(seed))
        self.network = SimulatedNetwork(self.scheduler, Chance(seed))
        self.views = [NodeScheduler(self.scheduler, Chance(seed + i)) for i in range(2)]
        self.near = self.network.add_host("near", self.views[0])
        self.far = self.network.add_host("far", self.views[1])
        self.accepted: list[SimulatedSocket] = []
        self.got = bytearray()
        self.listen()

    def listen(self) -> None:
        self.far.listen("far", PORT, self._accept).start()

    def _accept(self, sock: StreamSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        self.accepted.append(sock)
        collect(self.far, sock, self.got)

    def dial(self) -> Promise[StreamSocket]:
        return self.near.dial("far", PORT)

    def connected(self) -> SimulatedSocket:
        dialled = self.dial()
        self.scheduler.run_for(1)
        sock = dialled.result()
        assert isinstance(sock, SimulatedSocket)
        return sock


def collect(host: SimulatedHost, sock: SimulatedSocket, into: bytearray) -> None:
    def readable() -> None:
        try:
            data = sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if data:
            into.extend(data)
        else:
            into.extend(b"|")
            host.unwatch_reading(sock)

    host.watch_reading(sock, readable)


def test_a_way_that_is_cut_holds_bytes_back_and_loses_none() -> None:
    world = World()
    sock = world.connected()
    sock.send(b"one ")
    world.scheduler.run_for(1)
    world.network.cut(world.near, world.far)
    sock.send(b"two ")
    sock.send(b"three ")
    world.scheduler.run_for(100)
    assert bytes(world.got) == b"one "
    world.network.mend(world.near, world.far)
    sock.send(b"four")
    world.scheduler.run_for(5)
    assert bytes(world.got) == b"one two three four"


def test_a_cut_of_one_way_leaves_the_other_open() -> None:
    world = World()
    sock = world.connected()
    answers = bytearray()
    collect(world.near, sock, answers)
    world.network.cut(world.far, world.near)
    sock.send(b"question")
    world.accepted[0].send(b"answer")
    world.scheduler.run_for(10)
    assert bytes(world.got) == b"question"
    assert bytes(answers) == b""
    world.network.mend_all()
    world.scheduler.run_for(5)
    assert bytes(answers) == b"answer"


def test_what_was_read_counts_as_read_only_when_its_reader_can_say_so() -> None:
    world = World()
    sock = world.connected()
    world.network.cut(world.far, world.near)
    assert sock.send(bytes(WINDOW_BYTES)) == WINDOW_BYTES
    world.scheduler.run_for(5)
    assert len(world.got) == WINDOW_BYTES
    with pytest.raises(BlockingIOError):
        sock.send(b"more")
    world.network.mend_all()
    world.scheduler.run_for(5)
    assert sock.send(b"more") == 4


def test_a_process_that_dies_closes_its_connections_unless_the_way_is_cut() -> None:
    for cut in (False, True):
        world = World()
        sock = world.connected()
        seen = bytearray()
        collect(world.near, sock, seen)
        if cut:
            world.network.separate([world.near], [world.far])
        world.far.end_process()
        world.scheduler.run_for(10)
        assert bytes(seen) == (b"" if cut else b"|")
        world.network.mend_all()
        world.scheduler.run_for(10)
        assert bytes(seen) == b"|"


def test_a_machine_without_power_is_silent_and_resets_old_connections_when_it_is_up() -> None:
    world = World()
    sock = world.connected()
    seen = bytearray()
    collect(world.near, sock, seen)
    world.far.lose_power()
    sock.send(b"anybody there?")
    world.scheduler.run_for(100)
    assert bytes(seen) == b""
    world.far.come_up()
    world.listen()
    world.scheduler.run_for(5)
    assert bytes(seen) == b"|"
    with pytest.raises(BrokenPipeError):
        sock.send(b"again")


def test_dialling_is_refused_where_nobody_listens_and_waits_where_nobody_answers() -> None:
    world = World()
    world.far.end_process()
    refused = world.dial()
    world.scheduler.run_for(1)
    with pytest.raises(ConnectionRefusedError):
        refused.result()
    world.listen()
    world.network.cut(world.far, world.near)
    waiting = world.dial()
    world.scheduler.run_for(10)
    assert not waiting.done
    world.network.mend_all()
    world.scheduler.run_for(10)
    assert isinstance(waiting.result(), SimulatedSocket)
    world.far.lose_power()
    silent = world.dial()
    world.scheduler.run_for(200)
    with pytest.raises(TimeoutError):
        silent.result()


def test_connections_wait_in_the_backlog_of_a_paused_process() -> None:
    world = World()
    world.views[1].pause()
    sock = world.connected()
    sock.send(b"early")
    world.scheduler.run_for(5)
    assert world.accepted == []
    world.views[1].resume()
    world.scheduler.run_for(1)
    assert bytes(world.got) == b"early"


def test_a_slow_link_takes_its_time() -> None:
    world = World()
    sock = world.connected()
    world.network.link(world.near, world.far).bytes_per_second = 1000.0
    sock.send(bytes(5000))
    world.scheduler.run_for(4.9)
    assert len(world.got) == 0
    world.scheduler.run_for(0.2)
    assert len(world.got) == 5000


def test_timers_end_with_their_process_and_those_of_others_do_not() -> None:
    world = World()
    happened: list[str] = []
    world.views[0].call_later(1, happened.append, "dead")
    world.views[1].call_later(1, happened.append, "alive")
    world.views[0].forget_all()
    world.views[0].call_later(2, happened.append, "reborn")
    world.scheduler.run_for(3)
    assert happened == ["alive", "reborn"]


def test_a_fast_clock_is_early_and_a_skewed_one_is_wrong() -> None:
    world = World()
    fast = NodeScheduler(world.scheduler, Chance(1), rate=2.0)
    before = fast.monotonic()
    happened: list[float] = []
    fast.call_later(10, lambda: happened.append(world.scheduler.now))
    fast.skew_ms = -5000
    world.scheduler.run_for(20)
    assert happened == [5.0]
    assert fast.monotonic() - before == pytest.approx(40.0)
    assert fast.wall_ms() == world.scheduler.wall_ms() - 5000


def test_a_moment_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.simulation.scheduler.MOMENT_STEPS_LIMIT", 100)
    scheduler = SimulatedScheduler(Chance(1))

    def again() -> None:
        scheduler.call_later(0.0, again)

    again()
    with pytest.raises(AssertionError, match="does not come to an end"):
        scheduler.step()
