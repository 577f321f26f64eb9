"""A whole cluster in a simulation: real servers on virtual time, network and disks, from one seed.

Nodes are combined (each broker and controller) or separate (controllers first, then brokers); with
``processes`` each combined node is the first of a machine, and the others of it are brokers. The
quorum is dynamic (KIP-853) unless ``controller.quorum.voters`` is wanted. Each part of the world
draws from a chance of its own, so that a change of one does not shift all the others.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from ottla.common.chance import Chance
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.network.sockets import DiallingNetwork
from ottla.server.format import format_storage
from ottla.simulation import logins
from ottla.simulation.checkers.facts import Anomaly
from ottla.simulation.network import SimulatedHost, SimulatedNetwork
from ottla.simulation.node import DIRECTORY, SimulatedNode
from ottla.simulation.remote_store import SharedStore
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler
from ottla.simulation.trace import Trace
from ottla.testing.files import PowerLost


class Violation(BaseException):
    """Something happened that must never happen; no part of a node may survive it."""

    def __init__(self, anomaly: Anomaly) -> None:
        super().__init__(str(anomaly))
        self.anomaly = anomaly


Roles: TypeAlias = Literal["combined", "separate"]

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
"""Of a listener where clients log in; in clusters whose settings say how."""
START_SECONDS: Final = 60.0
PROCESS_STEP: Final = 1000
"""How far the ids of two processes of a machine are apart."""
OPERATOR: Final = "operator"
"""The host from which changes are asked for; no partition of the network touches it."""
SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": DIRECTORY,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "metadata.max.idle.interval.ms": "5000",
    "replica.fetch.wait.max.ms": "2000",
    "replica.lag.time.max.ms": "10000",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1500",
    "controller.quorum.fetch.timeout.ms": "4000",
    # By a clock that is a day ahead it is right to forget producers that were idle for one.
    "producer.id.expiration.ms": str(7 * 86_400_000),
}
"""What a simulated cluster has when nothing else is said: few partitions, long polls."""


class SimulatedCluster:
    """One seed, one run: ``trace`` is the same for the same seed and workload."""

    def __init__(
        self,
        seed: int,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        roles: Roles = "combined",
        *,
        controllers: int = 3,
        processes: int = 1,
        static_quorum: bool = False,
        clock_rates: tuple[float, float] = (1.0, 1.0),
        features: Mapping[str, int] | None = None,
    ) -> None:
        """``nodes`` counts the brokers; with separate roles ``controllers`` are added to them.

        With more than one of ``processes`` it counts machines, each of so many brokers.
        """
        assert processes == 1 or roles == "combined"
        self.seed = seed
        self.chance = Chance(seed)
        self.scheduler = SimulatedScheduler(self.part("scheduler"))
        self.network = SimulatedNetwork(self.scheduler, self.part("network"))
        self.network.crowds = self.part("crowds")
        self.trace = Trace(self.scheduler)
        self.network.on_deliver = self.trace.delivered
        self.after_step: list[Callable[[], None]] = []
        """Called after each moment at which something happened: checkers."""
        self.on_start: list[Callable[[SimulatedNode], None]] = []
        """Called with a node whose process begins; its server is made, and not yet started."""
        self.before_end: list[Callable[[SimulatedNode], None]] = []
        """Called with a node whose process is about to end: others may know what it just did."""
        self.on_end: list[Callable[[SimulatedNode], None]] = []
        """Called with a node whose process has ended, however it did."""
        self.leisure = 1.0
        """How long clients pause between their acts, against what their workload says."""
        self.violations: list[Anomaly] = []
        self.clocks_were_skewed = False
        """Whether the wall clock of some node was set wrong at some time."""
        self.lost: set[str] = set()
        """Topics that have had an unclean election."""
        self.groups_may_go = "offsets.retention.check.interval.ms" in (settings or {})
        """Whether a group without members and offsets goes within a run."""
        self.remote = SharedStore(self.part("remote store"))
        """Where tiered storage keeps its objects, when it is on: one store for all nodes."""
        self.cluster_id = uuid_text(random_uuid(self.chance))
        self._features = features
        self._static = static_quorum
        self._controllers: dict[int, bytes] = {}
        """The directory id of each first voter."""
        is_combined = roles == "combined"
        all_nodes = range(1, nodes + 1 + (0 if is_combined else controllers))
        voters = list(all_nodes) if is_combined else list(all_nodes)[:controllers]
        self._controllers = {node_id: random_uuid(self.chance) for node_id in voters}
        self.nodes: dict[int, SimulatedNode] = {}
        for node_id in all_nodes:
            text = "broker,controller" if is_combined else "broker"
            if not is_combined and node_id in self._controllers:
                text = "controller"
            self.nodes[node_id] = self._make_node(node_id, text, settings or {}, clock_rates)
        for number in range(1, processes):
            for machine in all_nodes:
                node_id = machine + number * PROCESS_STEP
                made = self._make_node(node_id, "broker", settings or {}, clock_rates)
                self.nodes[node_id] = made

    def part(self, name: str) -> Chance:
        """A chance of its own for one part of the world."""
        return Chance(int.from_bytes(f"{self.seed}/{name}".encode()))

    # Making nodes

    def _make_node(
        self,
        node_id: int,
        process_roles: str,
        settings: Mapping[str, str],
        clock_rates: tuple[float, float],
    ) -> SimulatedNode:
        chance = self.part(f"node {node_id}")
        scheduler = NodeScheduler(self.scheduler, chance, rate=chance.between(*clock_rates))
        host = self.network.add_host(f"node-{node_id}", scheduler)
        has_logins = logins.MECHANISMS in settings
        own = self._addresses(node_id, process_roles, has_logins=has_logins)
        config = BrokerConfig.from_properties({**SETTINGS, **own, **settings})
        node = SimulatedNode(self, config, host, scheduler, chance)
        self.format(node)
        return node

    def _addresses(self, node_id: int, process_roles: str, *, has_logins: bool) -> dict[str, str]:
        listeners = []
        if "broker" in process_roles:
            listeners.append(f"PLAINTEXT://node-{node_id}:{PORT}")
            if has_logins:
                listeners.append(f"{logins.LISTENER}://node-{node_id}:{logins.LOGIN_PORT}")
        if "controller" in process_roles:
            listeners.append(f"CONTROLLER://node-{node_id}:{CONTROLLER_PORT}")
        own = {
            "node.id": str(node_id),
            "process.roles": process_roles,
            "broker.rack": f"rack-{node_id % PROCESS_STEP}",
            "listeners": ",".join(listeners),
        }
        servers = [f"node-{each}:{CONTROLLER_PORT}" for each in self._controllers]
        if self._static:
            voters = zip(self._controllers, servers, strict=True)
            own["controller.quorum.voters"] = ",".join(f"{i}@{at}" for i, at in voters)
        else:
            own["controller.quorum.bootstrap.servers"] = ",".join(servers)
        return own

    def format(self, node: SimulatedNode, *, ignore_formatted: bool = False) -> None:
        """Format the empty disks of a node: a first voter only for its first incarnation."""
        initial = None
        if node.config.is_controller and not self._static and not node.incarnations:
            initial = ",".join(
                f"{each}@node-{each}:{CONTROLLER_PORT}:{uuid_text(directory_id)}"
                for each, directory_id in self._controllers.items()
            )
        format_storage(
            node.files,
            node.config,
            self.cluster_id,
            initial_controllers=initial,
            no_initial_controllers=initial is None and not self._static,
            features=self._features,
            ignore_formatted=ignore_formatted,
            chance=node.chance,
            now_ms=node.scheduler.wall_ms(),
        )

    # Life

    def start(self) -> None:
        """Start all nodes, and run until all serve."""
        started = [node.start() for node in self.nodes.values()]
        assert self.run_until(lambda: all(each.done for each in started), START_SECONDS), (
            "the cluster does not start"
        )
        for each in started:
            each.result()

    def stop(self) -> None:
        """Stop all nodes cleanly, one after the other, the last to be started first."""
        for node in reversed(self.nodes.values()):
            if node.is_running:
                self.wait_for(node.stop(), START_SECONDS)

    @property
    def running(self) -> Iterator[SimulatedNode]:
        return (node for node in self.nodes.values() if node.is_running)

    @property
    def brokers(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.config.is_broker]

    @property
    def controllers(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.config.is_controller]

    # What it is like

    def raft_leader(self) -> SimulatedNode | None:
        """Who leads the quorum, or thinks so, in the highest epoch."""
        found: tuple[int, SimulatedNode] | None = None
        for node in self.running:
            raft = node.raft
            if raft is not None and raft.is_leader and (found is None or raft.epoch > found[0]):
                found = (raft.epoch, node)
        return None if found is None else found[1]

    def newest_image(self) -> MetadataImage:
        images = [node.image for node in self.running]
        return max(images, key=lambda image: image.offset, default=EMPTY_IMAGE)

    def is_in_sync(self) -> bool:
        """Whether all brokers serve and all replicas of all partitions are in sync."""
        return self.unrest() is None

    def unrest(self) -> str | None:
        """Why the cluster is not at rest, in a few words; None when it is."""
        image = self.newest_image()
        for node in self.nodes.values():
            if not node.is_running or not node.has_served:
                return f"{node} does not serve"
            if node.config.is_broker and not image.is_active(node.node_id):
                return f"{node} is fenced"
            if node.image.offset < image.offset:
                return f"{node} is at {node.image.offset} of {image.offset} of the metadata log"
        for topic in image.topics:
            for index, partition in topic.partitions.items():
                name = f"{topic.name}-{index}"
                if partition.leader < 0:
                    return f"{name} has no leader"
                if len(partition.isr) < len(partition.replicas) or partition.is_reassigning:
                    return f"{name} has only {partition.isr} of {partition.replicas} in sync"
        return None

    # Its clients

    @property
    def directories(self) -> tuple[str, ...]:
        """The log directories of each broker."""
        return self.brokers[0].config.log_dirs

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [(node.host.name, PORT) for node in self.brokers]

    def known_everywhere(self) -> Callable[[], bool]:
        """What tells whether all brokers that serve know what is committed now."""
        offset = self.newest_image().offset

        def is_known() -> bool:
            serving = [node for node in self.brokers if node.is_running and node.has_served]
            return all(node.image.offset >= offset for node in serving)

        return is_known

    def client_network(self, name: str) -> DiallingNetwork:
        """A host of that name, for clients."""
        return self.client_host(name)

    def client_hosts(self) -> list[SimulatedHost]:
        """Those that are on the same network as the nodes, and cut off as they are."""
        own = {node.host for node in self.nodes.values()}
        return [
            host
            for host in self.network.hosts.values()
            if host not in own and host.name != OPERATOR
        ]

    def client_host(self, name: str) -> SimulatedHost:
        host = self.network.hosts.get(name)
        return self.network.add_host(name) if host is None else host

    # Time

    def note(self, what: str) -> None:
        """Add to the trace."""
        self.trace.note(what)

    def step(self) -> bool:
        """Go to the next moment; a node whose disk has ended it loses its power."""
        try:
            stepped = self.scheduler.step()
        except PowerLost as lost:
            if not any(node.power_was_lost(lost) for node in self.nodes.values()):
                raise
            stepped = True
        for check in self.after_step:
            check()
        if self.violations:
            raise Violation(self.violations[0])
        return stepped

    def violation(self, kind: str, what: str) -> None:
        """A checker has found something that must not be; the run ends after this step."""
        self.note(f"VIOLATION {kind}: {what}")
        self.violations.append(Anomaly(kind, what))

    def run_for(self, seconds: float) -> None:
        scheduler = self.scheduler
        end = scheduler.now + seconds
        while True:
            at = scheduler.next_at()
            if at is None or at > end:
                scheduler.now = end
                return
            self.step()

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Step until ``condition`` holds; tell whether it did within ``seconds``."""
        end = self.scheduler.now + seconds
        while not condition():
            at = self.scheduler.next_at()
            if at is None or at > end:
                return False
            self.step()
        return True

    def sleep(self, seconds: float) -> Promise[None]:
        promise: Promise[None] = Promise(self.scheduler.turn)
        self.scheduler.call_later(seconds, promise.fulfil, None)
        return promise

    def wait_for(self, promise: Promise[None], seconds: float) -> None:
        assert self.run_until(lambda: promise.done, seconds), "it takes too long"
        promise.result()
