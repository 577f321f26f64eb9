"""A network in memory: hosts, and connections between them with delay and a finite window.

A connection is refused when nobody listens, ends when a process dies, and knows nothing when a
machine loses its power or the way is cut: then only time limits help. The network itself is a host
too, for simulations that have but one.
"""

import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.network.accepting import Accepting
from ottla.network.sockets import StreamSocket
from ottla.simulation.links import DELAY_SECONDS, LOCAL_DELAY_SECONDS, RETRANSMIT_SECONDS, Link
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler
from ottla.simulation.sockets import END, RESET, SimulatedSocket

FIRST_PORT: Final = 30_000
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "")
DIAL_RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""When a first packet that was not answered is sent again, as Linux does."""
CROWD_SECONDS: Final = (0.0, 0.002)
"""How long what comes lies in the sockets before a busy process looks at all of them."""


class SimulatedListening:
    """A dialling side waits in the backlog until it is accepted, which takes a descriptor."""

    def __init__(
        self, host: "SimulatedHost", port: int, accepted: Callable[[StreamSocket], None]
    ) -> None:
        self.host = host
        self.port = port
        self.started = False
        self.backlog: deque[SimulatedSocket] = deque()
        self._accepting = Accepting(self, accepted, host.scheduler.call_later)
        self._on_waiting: Callable[[], None] | None = None
        self._told = False

    def start(self) -> None:
        self.started = True
        self._accepting.start()

    def pause(self, seconds: float) -> None:
        self._accepting.pause(seconds)

    def arrived(self, sock: SimulatedSocket) -> None:
        self.backlog.append(sock)
        if self._on_waiting is None or self._told:
            return
        if self.host.scheduler.is_paused:
            self._tell()
        else:
            self.host.scheduler.steps += 1
            self._ready()

    def close(self) -> None:
        if self.started:
            self._accepting.stop()
        self.host.listening.pop(self.port, None)
        for sock in self.backlog:
            sock.close()

    # What an event loop does for it

    def accept(self) -> SimulatedSocket:
        if not self.backlog:
            raise BlockingIOError
        if self.host.descriptors_left <= 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sock = self.backlog.popleft()
        sock.descriptor = self.host.descriptors_used
        return sock

    def watch(self, callback: Callable[[], None]) -> None:
        self._on_waiting = callback
        if self.backlog:
            self._ready()

    def unwatch(self) -> None:
        self._on_waiting = None

    def _tell(self) -> None:
        if self.backlog and self._on_waiting is not None and not self._told:
            self._told = True
            self.host.scheduler.call_soon(self._ready)

    def _ready(self) -> None:
        self._told = False
        if self.backlog and self._on_waiting is not None:
            self._on_waiting()
            self._tell()


class SimulatedHost:
    """A machine with a name. Implements ``DiallingNetwork`` for what runs on it."""

    def __init__(
        self,
        network: "SimulatedNetwork",
        name: str,
        scheduler: NodeScheduler | SimulatedScheduler,
    ) -> None:
        self.network = network
        self.name = name
        self.scheduler = scheduler
        self.is_up = True
        self.listening: dict[int, SimulatedListening] = {}
        self.sockets: dict[SimulatedSocket, None] = {}
        self._unanswered: dict[SimulatedSocket, None] = {}
        """Old connections on which something came while the host had no power."""
        self._crowd: dict[SimulatedSocket, None] = {}
        """What is ready, and is taken in one turn."""
        self._next_port = FIRST_PORT
        self.descriptor_limit = sys.maxsize
        """What the process is told when it starts."""
        self.descriptors_max = sys.maxsize
        """What it can have now."""

    @property
    def descriptors_used(self) -> int:
        """Of sockets; those in a backlog are the kernel's as yet."""
        waiting = sum(len(listening.backlog) for listening in self.listening.values())
        return len(self.sockets) - waiting

    @property
    def descriptors_left(self) -> int:
        return self.descriptors_max - self.descriptors_used

    def next_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def listen(
        self, host: str, port: int, accepted: Callable[[StreamSocket], None]
    ) -> SimulatedListening:
        del host  # a host has one address, and many ports
        port = port or self.next_port()
        if port in self.listening:
            raise OSError(f"port {port} is taken")
        listening = self.listening[port] = SimulatedListening(self, port, accepted)
        return listening

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        """Connect to the listener there, after a delay."""
        promise: Promise[StreamSocket] = Promise(self.scheduler.turn)
        target = self.network.resolve(self, host)
        if target is None or self.descriptors_left <= 0:
            error = OSError(f"{host} has no address")
            if target is not None:
                error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.scheduler.call_soon(promise.fail, error)
        else:
            self._dial(promise, target, port, 0)
        return promise

    def _dial(
        self, promise: Promise[StreamSocket], target: "SimulatedHost", port: int, tries: int
    ) -> None:
        way, back = self.network.link(self, target), self.network.link(target, self)
        if way.is_cut or back.is_cut or not target.is_up:
            if tries == len(DIAL_RETRY_SECONDS):
                promise.fail(TimeoutError(f"{target.name}:{port} does not answer"))
                return
            wait = DIAL_RETRY_SECONDS[tries]
            self.scheduler.call_later(wait, self._dial, promise, target, port, tries + 1)
            return
        delay = self.network.delay(way)
        life = self.scheduler.life
        self.network.scheduler.call_later(delay, self._dialled, promise, target, port, life)

    def _dialled(
        self, promise: Promise[StreamSocket], target: "SimulatedHost", port: int, life: int
    ) -> None:
        """The first packet is there; perhaps the process that sent it is not any more."""
        if life != self.scheduler.life:
            return
        delay = self.network.delay(self.network.link(target, self))
        try:
            near = self.connect_to(target, port)
        except OSError as error:
            self.scheduler.call_later(delay, promise.fail, error)
        else:
            self.scheduler.call_later(delay, promise.fulfil, near)

    def connect_to(self, target: "SimulatedHost", port: int) -> SimulatedSocket:
        listening = target.listening.get(port)
        if listening is None:
            raise ConnectionRefusedError(f"nobody listens on {target.name}:{port}")
        near = SimulatedSocket(self, self.next_port(), self.network.link(self, target))
        far = SimulatedSocket(target, port, self.network.link(target, self))
        near.peer, far.peer = far, near
        self.sockets[near] = target.sockets[far] = None
        listening.arrived(far)
        return near

    # What happens to its process and to its power

    def end_process(self) -> None:
        """Close all that was open, as the kernel does when a process dies."""
        self._crowd.clear()
        self.listening.clear()
        for sock in list(self.sockets):
            sock.close()

    def lose_power(self) -> None:
        self.is_up = False
        self._crowd.clear()
        self.listening.clear()
        for sock in list(self.sockets):
            sock.forget()

    def come_up(self) -> None:
        self.is_up = True
        unanswered, self._unanswered = self._unanswered, {}
        for sock in unanswered:
            delay = self.network.retransmit_delay()
            self.network.scheduler.call_later(delay, self.network.deliver, sock, RESET)

    def answer_reset(self, sock: SimulatedSocket) -> None:
        """Something came on a connection that nobody here knows of any more."""
        if self.is_up:
            self.network.deliver(sock, RESET)
        else:
            self._unanswered[sock] = None

    # Readiness, as an event loop tells it

    def came_ready(self, sock: SimulatedSocket) -> bool:
        """Have it taken; whether that is later, in one turn with others that come meanwhile."""
        if not self._crowd:
            wait = self.network.crowd_seconds()
            if wait == 0:
                self.scheduler.turn.run(sock.take)
                return False
            self.scheduler.call_later(wait, self._take_crowd)
        self._crowd[sock] = None
        return True

    def _take_crowd(self) -> None:
        crowd, self._crowd = self._crowd, {}
        self.scheduler.turn.is_crowd = len(crowd) > 1
        for sock in crowd:
            sock.take()

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock.watch_reading(callback)

    def unwatch_reading(self, sock: StreamSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock.watch_reading(None)

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock.watch_writing(callback)

    def unwatch_writing(self, sock: StreamSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock.watch_writing(None)


class SimulatedNetwork(SimulatedHost):
    """All hosts and connections of a simulation; each direction of each keeps its order."""

    def __init__(self, scheduler: SimulatedScheduler, chance: Chance) -> None:
        super().__init__(self, LOCAL_NAMES[0], scheduler)
        self.scheduler: SimulatedScheduler = scheduler
        self._chance = chance
        self.hosts: dict[str, SimulatedHost] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self.crowds: Chance | None = None
        """If processes are busy at times, so that what comes to several sockets is one turn."""
        self.delay_seconds = DELAY_SECONDS
        """Of links that are made from now on."""
        self.delivered = 0
        self._socket_numbers = count(1)
        self.on_deliver: Callable[[SimulatedSocket, bytes | None], None] = lambda _from, _data: None

    def add_host(
        self, name: str, scheduler: NodeScheduler | SimulatedScheduler | None = None
    ) -> SimulatedHost:
        assert name not in self.hosts, f"there is a host {name} already"
        host = self.hosts[name] = SimulatedHost(self, name, scheduler or self.scheduler)
        return host

    def next_socket(self) -> int:
        return next(self._socket_numbers)

    def resolve(self, asking: SimulatedHost, name: str) -> SimulatedHost | None:
        """The host of that name; where there is only one, all names lead to it."""
        if not self.hosts or name in LOCAL_NAMES:
            return asking
        return self.hosts.get(name)

    def link(self, source: SimulatedHost, target: SimulatedHost) -> Link:
        key = (source.name, target.name)
        link = self._links.get(key)
        if link is None:
            is_local = source is target and source is not self
            delay_seconds = LOCAL_DELAY_SECONDS if is_local else self.delay_seconds
            link = self._links[key] = Link(delay_seconds)
        return link

    def delay(self, link: Link) -> float:
        return self._chance.between(*link.delay_seconds)

    def crowd_seconds(self) -> float:
        """How long a process does not look; mostly it does at once."""
        if self.crowds is None or self.crowds.below(4):
            return 0.0
        return self.crowds.between(*CROWD_SECONDS)

    def retransmit_delay(self) -> float:
        return self._chance.between(*RETRANSMIT_SECONDS)

    # Connections

    def connect(self, port: int, host: str = LOCAL_NAMES[0]) -> SimulatedSocket:
        """Connect at once to the listener on ``port``."""
        target = self.resolve(self, host)
        assert target is not None
        listening = target.listening.get(port)
        if listening is None or not listening.started:
            raise ConnectionRefusedError(f"nobody listens on port {port}")
        return self.connect_to(target, port)

    def cut_all(self) -> None:
        """End every connection and every listener at once: the only process is gone."""
        self.listening.clear()
        self._crowd.clear()
        for sock in list(self.sockets):
            sock.cut()
        self.sockets.clear()

    def deliver(self, source: SimulatedSocket, data: bytes | None) -> None:
        link = source.link
        scheduler = self.scheduler
        now = scheduler.now
        at = link.arrival(now, self._chance.between(*link.delay_seconds), len(data or END))
        source.arrives_at = at = max(at, source.arrives_at)
        # By way of the difference, which rounds.
        scheduler.call_later(at - now, self._arrive, source, data)

    def _arrive(self, source: SimulatedSocket, data: bytes | None) -> None:
        if source.link.is_cut or source.held:
            source.held.append(data)
            source.link.held[source] = None
            return
        self.delivered += 1
        self.on_deliver(source, data)
        source.peer.arrived(data)

    # Cuts

    def cut(self, source: SimulatedHost, target: SimulatedHost) -> None:
        """Let nothing pass from ``source`` to ``target``."""
        assert source is not target
        self.link(source, target).is_cut = True

    def mend(self, source: SimulatedHost, target: SimulatedHost) -> None:
        link = self.link(source, target)
        link.is_cut = False
        held, link.held = link.held, {}
        for sock in held:
            self.scheduler.call_later(self.retransmit_delay(), self._release, sock)

    def separate(self, one: Iterable[SimulatedHost], other: Iterable[SimulatedHost]) -> None:
        """Cut both ways between two parts."""
        others = list(other)
        for source in one:
            for target in others:
                self.cut(source, target)
                self.cut(target, source)

    def mend_all(self) -> None:
        """No way is cut, slow or longer than it was."""
        for source, target in list(self._links):
            link = self._links[source, target]
            link.bytes_per_second = None
            link.delay_seconds = LOCAL_DELAY_SECONDS if source == target else self.delay_seconds
            if link.is_cut:
                self.mend(self.hosts[source], self.hosts[target])

    def _release(self, sock: SimulatedSocket) -> None:
        link = sock.link
        if link.is_cut:
            link.held[sock] = None
            return
        if sock.unacknowledged:
            size, sock.unacknowledged = sock.unacknowledged, 0
            sock.peer.acknowledged(size)
        held = list(sock.held)
        sock.held.clear()
        for data in held:
            self._arrive(sock, data)
