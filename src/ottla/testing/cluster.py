"""A cluster of real processes for tests, whose nodes can be killed, paused and cut off.

    with Cluster(3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        cluster.kill(cluster.leader("events"))

Nodes are brokers and controllers, 1 to N; with ``Cluster(brokers=3, controllers=3)`` brokers are 1
to 3 and controllers 101 to 103. Topics have three replicas and ``min.insync.replicas`` is 2, unless
there are fewer brokers. Nodes talk to each other through :mod:`ottla.testing.links`, clients talk
to them directly. Everything is removed at the end, unless a directory is given.

:meth:`skew` shifts the wall clock of a node: what it writes into records and compares with them.
Timeouts are not touched by it, they are measured by a clock that only goes forward.
"""

import contextlib
import mmap
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from ottla.client.admin import Admin
from ottla.client.cluster import Timing
from ottla.client.health import partition_problems
from ottla.client.quorum import describe_quorum
from ottla.common.errors import ApiError
from ottla.server.environment import CLOCK_OFFSET_FILE
from ottla.server.local_cluster import HOST, LocalCluster, NodePlace, free_ports
from ottla.server.local_security import LocalSecurity
from ottla.server.node_process import NodeProcess, serve_command
from ottla.testing.links import Links
from ottla.testing.secured import Secured

V = TypeVar("V")

START_SECONDS: Final = 60.0
SYNC_SECONDS: Final = 60.0
FIRST_CONTROLLER: Final = 101
_POLL_SECONDS: Final = 0.02
_QUICK: Final = Timing(connect_timeout_ms=500, request_timeout_ms=1000, call_timeout_ms=1000)
_TIMING: Final = Timing(connect_timeout_ms=1000, request_timeout_ms=2000, call_timeout_ms=2000)


class ClusterNode:
    """One node of a cluster: its port, its process, its directory."""

    def __init__(self, place: NodePlace, process: NodeProcess) -> None:
        self.place = place
        self.process = process

    @property
    def node_id(self) -> int:
        return self.place.node_id

    @property
    def port(self) -> int:
        """For clients."""
        assert self.place.port is not None, f"node {self.node_id} is no broker"
        return self.place.port

    @property
    def host(self) -> str:
        return self.place.host or HOST

    @property
    def is_running(self) -> bool:
        return self.process.is_running

    @property
    def log_dir(self) -> Path:
        return Path(self.place.data)

    def log(self, last: int | None = None) -> str:
        """What the node has written."""
        return self.process.output(last)


class Cluster(Secured):
    """Use it in a ``with`` block, or call :meth:`start_all` and :meth:`close`."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        brokers: int | None = None,
        controllers: int | None = None,
        config: Mapping[str, str] | None = None,
        racks: Sequence[str] | None = None,
        directory: str | None = None,
        proxied: bool = True,
        dynamic: bool = False,
        command: Sequence[str] | None = None,
        hosts: Mapping[int, str] | None = None,
        prefixes: Mapping[int, Sequence[str]] | None = None,
        security: str | None = None,
    ) -> None:
        """Without ``proxied`` nodes talk directly, and no network can be cut.

        With ``dynamic`` voters can join and leave (KIP-853), and a directory keeps its ports.
        ``command`` is another program that takes a server.properties file, such as Apache Kafka's.
        ``hosts`` are addresses of nodes by their ids, where they are not all this machine's, and
        ``prefixes`` the words before the command of each, which take it to where it runs.
        ``security`` is "ssl", "sasl_ssl" or "sasl_plaintext", for clients and between the nodes.
        """
        self._hosts = dict(hosts or {})
        prefixes = prefixes or {}
        self._temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="ottla-cluster-"))
        self._links = Links(self._pids) if proxied else None
        places = self._places(nodes, brokers, controllers, racks)
        advertised = self._open_links(places)
        self.security = None
        if security is not None:
            self.security = LocalSecurity(security, self.directory / "security")
        self._local = LocalCluster(
            places,
            advertised=advertised,
            settings=config,
            dynamic=dynamic,
            security=self.security,
        )
        self._clocks = {place.node_id: self._clock_file(place) for place in places}
        self._nodes = {
            place.node_id: ClusterNode(
                place,
                NodeProcess(
                    place.node_id,
                    place.directory,
                    self._local.properties(place),
                    command=(*prefixes.get(place.node_id, ()), *(command or serve_command())),
                    environment={CLOCK_OFFSET_FILE: str(self._clocks[place.node_id])},
                ),
            )
            for place in places
        }

    def _places(
        self,
        nodes: int,
        brokers: int | None,
        controllers: int | None,
        racks: Sequence[str] | None,
    ) -> list[NodePlace]:
        separate = controllers is not None
        count = nodes if brokers is None else brokers
        ports = iter(free_ports(3 * count + (controllers or 0)))
        places = [
            NodePlace(
                node_id,
                self.directory / f"node-{node_id}",
                port=next(ports),
                controller_port=None if separate else next(ports),
                internal_port=None if self._links is None else next(ports),
                rack=None if racks is None else racks[(node_id - 1) % len(racks)],
                host=self._hosts.get(node_id),
            )
            for node_id in range(1, count + 1)
        ]
        places += [
            NodePlace(
                FIRST_CONTROLLER + at,
                self.directory / f"node-{FIRST_CONTROLLER + at}",
                controller_port=next(ports),
                host=self._hosts.get(FIRST_CONTROLLER + at),
            )
            for at in range(controllers or 0)
        ]
        return places

    def _open_links(self, places: Iterable[NodePlace]) -> dict[int, int]:
        if self._links is None:
            return {}
        return {
            port: self._links.open(place.node_id, port)
            for place in places
            for port in (place.internal_port, place.controller_port)
            if port is not None
        }

    @staticmethod
    def _clock_file(place: NodePlace) -> Path:
        place.directory.mkdir(parents=True, exist_ok=True)
        file = place.directory / "clock-offset-ms"
        file.write_bytes(bytes(8))
        return file

    def _pids(self) -> dict[int, int]:
        return {each.node_id: each.process.pid for each in self.nodes if each.is_running}

    # What it is.

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self._nodes.values())

    @property
    def brokers(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.place.port is not None]

    def node(self, node_id: int) -> ClusterNode:
        return self._nodes[node_id]

    @property
    def bootstrap_servers(self) -> str:
        return self._local.bootstrap_servers

    def admin(self) -> Admin:
        """A client that gives up after two seconds."""
        return self._admin(self.bootstrap_servers, _TIMING)

    def _admin(self, servers: str, timing: Timing) -> Admin:
        return Admin(servers, timing=timing, security=self.client_security())

    def controller(self) -> int:
        """The active controller, by the broker that knows of the highest epoch."""

        def ask(admin: Admin) -> tuple[int, int]:
            quorum = describe_quorum(admin.cluster)
            return quorum.leader_epoch, quorum.leader_id

        return max(self._ask_each(ask))[1]

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition, by the highest epoch that a broker knows of; -1 if none."""

        def ask(admin: Admin) -> tuple[int, int]:
            described = admin.describe_topics([topic])[topic].partitions
            found = next(each for each in described if each.partition == partition)
            return found.leader_epoch, found.leader

        return max(self._ask_each(ask))[1]

    def _ask_each(self, ask: Callable[[Admin], V]) -> list[V]:
        """The answers of the brokers that give one: a broker that is cut off knows old things."""
        answers: list[V] = []
        for node in self.brokers:
            if node.is_running and not node.process.is_paused:
                with (
                    contextlib.suppress(OSError, ApiError),
                    self._admin(f"{node.host}:{node.port}", _QUICK) as admin,
                ):
                    answers.append(ask(admin))
        if not answers:
            raise ConnectionError("no broker answers")
        return answers

    def report(self, last: int = 4000) -> str:
        """The end of what each node has written, for the report of a test that failed."""
        return "\n".join(
            f"--- node {node.node_id} "
            f"({'runs' if node.is_running else f'ended with {node.process.exit_code}'})\n"
            f"{node.log(last)}"
            for node in self.nodes
        )

    # Its life.

    def __enter__(self) -> Self:
        try:
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start_all(self) -> None:
        """Start every node that does not run, and wait until all brokers serve."""
        self._local.format()
        for node in self.nodes:
            if not node.is_running:
                node.process.start()
        self.wait_until(self._all_serve, START_SECONDS, "all brokers serve")

    def close(self) -> None:
        """End all nodes, at once: nobody will read what they leave."""
        for node in self.nodes:
            node.process.kill()
        if self._links is not None:
            self._links.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, node_id: int) -> None:
        """Start a node, and wait until it serves."""
        self.node(node_id).process.start()
        self.wait_until(lambda: self._serves(node_id), START_SECONDS, f"node {node_id} serves")

    def stop(self, node_id: int) -> None:
        """Stop a node as an operator would: it hands its partitions over first."""
        self.node(node_id).process.stop()

    def restart(self, node_id: int) -> None:
        self.stop(node_id)
        self.start(node_id)

    def kill(self, *node_ids: int) -> None:
        """End nodes as a crash would."""
        for node_id in node_ids:
            self.node(node_id).process.kill()

    def pause(self, node_id: int) -> None:
        """A node stands still, with all its connections open."""
        self.node(node_id).process.pause()

    def resume(self, node_id: int) -> None:
        self.node(node_id).process.resume()

    def partition(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Nothing reaches the second from the first, nor, unless ``one_way``, the other way."""
        assert self._links is not None, "a cluster that is not proxied cannot be cut"
        self._links.cut(first, second)
        if not one_way:
            self._links.cut(second, first)

    def isolate(self, node_id: int) -> None:
        """Cut a node from all others; clients still reach it."""
        for node in self.nodes:
            if node.node_id != node_id:
                self.partition(node_id, node.node_id)

    def heal(self) -> None:
        """All nodes reach each other again."""
        if self._links is not None:
            self._links.heal()

    def skew(self, node_id: int, milliseconds: int) -> None:
        """Let the wall clock of a node be ahead of this machine's, or behind; it holds at once."""
        with (
            self._clocks[node_id].open("r+b") as file,
            mmap.mmap(file.fileno(), 8) as shared,
        ):
            shared[:8] = struct.pack("=q", milliseconds)

    # Waiting.

    def wait_until(
        self, condition: Callable[[], bool], seconds: float, what: str = "the condition holds"
    ) -> None:
        """Ask again and again; what the nodes wrote is in the error if it never comes true."""
        deadline = time.monotonic() + seconds  # noqa: TID251 - real processes live in real time
        while True:
            with contextlib.suppress(OSError, ApiError):
                if condition():
                    return
            if time.monotonic() > deadline:  # noqa: TID251
                raise TimeoutError(f"{what}: not within {seconds:.0f} s\n{self.report(2000)}")
            time.sleep(_POLL_SECONDS)

    def wait_until_in_sync(self, seconds: float = SYNC_SECONDS) -> None:
        """Every broker serves and every replica of every partition is in sync."""
        self.wait_until(self._all_in_sync, seconds, "all replicas are in sync")

    def _all_serve(self) -> bool:
        for node in self.nodes:
            if not node.is_running:
                raise RuntimeError(
                    f"node {node.node_id} ended with {node.process.exit_code}\n{node.log(4000)}"
                )
        return all(self._serves(node.node_id) for node in self.brokers)

    def _serves(self, node_id: int) -> bool:
        """Its own address answers, and the cluster has unfenced it."""
        node = self.node(node_id)
        place = node.place
        if place.port is None:
            assert place.controller_port is not None
            socket.create_connection((node.host, place.controller_port), 1).close()
            return True
        with self._admin(f"{node.host}:{place.port}", _TIMING) as admin:
            return any(broker.node_id == node_id for broker in admin.describe_cluster().brokers)

    def _all_in_sync(self) -> bool:
        everyone = {node.node_id for node in self.brokers}

        def ask(admin: Admin) -> bool:
            serving = {broker.node_id for broker in admin.describe_cluster().brokers}
            topics = admin.describe_topics(admin.list_topics(internal=True))
            return serving == everyone and not any(partition_problems(topics, {}))

        answers = self._ask_each(ask)
        return len(answers) == len(everyone) and all(answers)
