"""The simulated network keeps the order of each direction, has a window, and obeys its seed."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.chance import Chance
from ottla.network.sockets import StreamSocket
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.simulation.sockets import WINDOW_BYTES, SimulatedSocket


def new_network(seed: int = 1) -> tuple[SimulatedScheduler, SimulatedNetwork]:
    chance = Chance(seed)
    scheduler = SimulatedScheduler(chance)
    return scheduler, SimulatedNetwork(scheduler, chance)


def connect(network: SimulatedNetwork) -> tuple[SimulatedSocket, SimulatedSocket]:
    accepted: list[StreamSocket] = []
    listening = network.listen("", 0, accepted.append)
    listening.start()
    near = network.connect(listening.port)
    far = accepted[0]
    assert isinstance(far, SimulatedSocket)
    return near, far


def collect(network: SimulatedNetwork, sock: SimulatedSocket, into: bytearray) -> None:
    def readable() -> None:
        data = sock.recv(64)
        if data:
            into.extend(data)
        else:
            network.unwatch_reading(sock)

    network.watch_reading(sock, readable)


@settings(max_examples=30)
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=30), st.integers(0, 1000))
def test_bytes_arrive_once_and_in_order_whatever_the_delays(pieces: list[bytes], seed: int) -> None:
    scheduler, network = new_network(seed)
    near, far = connect(network)
    got = bytearray()
    collect(network, far, got)
    for piece in pieces:
        assert near.send(piece) == len(piece)
    near.close()
    scheduler.run_for(10)
    assert bytes(got) == b"".join(pieces)


def test_a_full_window_blocks_until_the_reader_reads() -> None:
    scheduler, network = new_network()
    near, far = connect(network)
    assert near.send(bytes(WINDOW_BYTES + 5)) == WINDOW_BYTES
    try:
        near.send(b"more")
    except BlockingIOError:
        blocked = True
    else:
        blocked = False
    assert blocked
    writable: list[float] = []

    def told() -> None:
        writable.append(scheduler.now)
        network.unwatch_writing(near)

    network.watch_writing(near, told)
    scheduler.run_for(1)
    assert writable == []
    assert len(far.recv(100)) == 100
    scheduler.run_for(1)
    assert len(writable) == 1


def test_the_same_seed_gives_the_same_moments() -> None:
    def moments(seed: int) -> list[float]:
        scheduler, network = new_network(seed)
        near, far = connect(network)
        seen: list[float] = []

        def readable() -> None:
            far.recv(1)
            seen.append(scheduler.now)

        network.watch_reading(far, readable)
        near.send(b"abcdefgh")
        near.send(b"ij")
        scheduler.run_for(5)
        return seen

    assert moments(5) == moments(5)
    assert len(moments(5)) == 10
    assert moments(5) != moments(6)


class Crowd:
    """Connections to one process, and which of them each of its turns reads."""

    def __init__(self, seed: int, count: int) -> None:
        self.scheduler, self.network = new_network(seed)
        self.network.crowds = Chance(seed)
        self.turns: list[set[int]] = []
        self.got = [b""] * count
        self._is_in_turn = False
        self.near: list[SimulatedSocket] = []
        for number in range(count):
            near, far = connect(self.network)
            self.near.append(near)
            self.network.watch_reading(far, partial(self._read, number, far))

    def _read(self, number: int, sock: SimulatedSocket) -> None:
        if not self._is_in_turn:
            self._is_in_turn = True
            self.turns.append(set())
            self.scheduler.turn.send_at_end(self._end)
        self.turns[-1].add(number)
        self.got[number] += sock.recv(100)

    def _end(self) -> None:
        self._is_in_turn = False


def test_what_comes_to_several_sockets_of_a_busy_process_is_one_turn_at_times() -> None:
    """And always all of it comes, in its order."""
    sizes = []
    for seed in range(20):
        crowd = Crowd(seed, 8)
        for near in crowd.near:
            near.send(b"a")
            near.send(b"b")
        crowd.scheduler.run_for(1)
        assert crowd.got == [b"ab"] * 8
        sizes += [len(turn) for turn in crowd.turns]
    assert min(sizes) == 1
    assert max(sizes) > 2
