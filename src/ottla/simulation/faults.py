"""The kinds of faults: each begins at once and returns how it ends, or None if it cannot be now.

Rules keep to what Kafka promises (KIP-966), so that whatever is lost nevertheless is a bug: power
is taken, and a disk replaced, only while all replicas are in sync; until they are so again no other
process ends uncleanly, since the controller cannot tell who has lost records and who has not; and
the disk of a voter's metadata log is never replaced.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ottla.common.chance import Chance
from ottla.common.promise import Promise, run
from ottla.simulation import disk
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.membership import leave_and_join
from ottla.simulation.network import SimulatedHost
from ottla.simulation.node import SimulatedNode

End: TypeAlias = Callable[[], None]
Nodes: TypeAlias = list[SimulatedNode]

DELAYS_SECONDS: Final = ((0.01, 0.05), (0.05, 0.5), (0.2, 2.0))
SLOW_BYTES_PER_SECOND: Final = (2_000.0, 50_000.0, 500_000.0)
SKEWS_MS: Final = (-86_400_000, -60_000, -500, 500, 60_000, 86_400_000)
ARMED_SECONDS: Final = 0.2
STOP_SECONDS: Final = 30.0
SYNC_SECONDS: Final = 20.0


class Faults:
    """Does things to a cluster, and knows what is to be undone."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._cuts: Counter[tuple[str, str]] = Counter()
        """How many faults have cut each way."""
        self._ill_disks: set[int] = set()
        """Those that are full or fail now."""
        self._bad_disks: set[int] = set()
        """Those, and those that were in this incarnation of their node, which may yet notice."""
        self.tasks: list[Promise[None]] = []
        """What takes its time: rolling restarts, changes of the voters."""
        self.is_over = False
        self.has_lost = False
        """Whether a node has lost records, and not all replicas were in sync since."""

    @property
    def is_fragile(self) -> bool:
        """Whether another unclean end might be one too many."""
        if self.has_lost and self._cluster.is_in_sync():
            self.has_lost = False
        return self.has_lost

    def heal(self) -> None:
        """End all that is wrong, and start the nodes that are down."""
        self.is_over = True
        self._cuts.clear()
        self._cluster.network.mend_all()
        for node in self._cluster.nodes.values():
            if node.scheduler.is_paused:
                node.resume()
            if node.scheduler.skew_ms:
                node.skew(0)
            node.host.descriptors_max = sys.maxsize
            self._mend_disk(node)
            self.start(node)
            if node.has_offline_directory and not node.is_stopping:
                self.tasks.append(run(self._cluster.scheduler.turn, self._restart(node)))

    def start(self, node: SimulatedNode) -> None:
        if node.node is None:
            if node.node_id not in self._ill_disks:
                self._bad_disks.discard(node.node_id)
            node.start()

    def may_end(self, node: SimulatedNode) -> bool:
        """Whether there is a reason for a node to end by itself."""
        return node.node_id in self._bad_disks or not node.has_served

    # Processes and machines

    def kill(self, nodes: Nodes, chance: Chance) -> End | None:
        return self.kill_all(nodes[: 1 + chance.below(2)], chance)

    def kill_all(self, nodes: Nodes, _chance: Chance) -> End | None:
        killed = [node for node in nodes if node.node is not None and not self.is_fragile]
        for node in killed:
            node.kill()
        return self._starting(killed)

    def _starting(self, nodes: Nodes) -> End | None:
        def end() -> None:
            for node in nodes:
                self.start(node)

        return end if nodes else None

    def lose_power(self, nodes: Nodes, chance: Chance) -> End | None:
        node = nodes[0]
        if not self.may_lose(node):
            return None
        self.has_lost = True
        if chance.below(2):
            node.lose_power()
        else:
            # Within the next writes, or not at all.
            node.lose_power_after(chance.below(30))
            self._cluster.scheduler.call_later(ARMED_SECONDS, node.files.go_on)

        def end() -> None:
            node.files.go_on()
            self.start(node)

        return end

    def may_lose(self, node: SimulatedNode) -> bool:
        return node.node is not None and not self._bad_disks and self._cluster.is_in_sync()

    def pause(self, nodes: Nodes, _chance: Chance) -> End | None:
        node = nodes[0]
        if node.node is None or node.scheduler.is_paused:
            return None
        node.pause()
        incarnation = node.incarnations

        def end() -> None:
            if node.incarnations == incarnation and node.scheduler.is_paused:
                node.resume()

        return end

    def skew(self, nodes: Nodes, chance: Chance) -> End | None:
        nodes[0].skew(chance.choose(SKEWS_MS))
        return lambda: nodes[0].skew(0)

    # The network

    def _cut(self, ways: Iterable[tuple[SimulatedHost, SimulatedHost]]) -> End:
        cut = [(source, target) for source, target in ways if source is not target]
        nodes = [(a.name, b.name) for a, b in cut if self._is_node(a) and self._is_node(b)]
        names = ", ".join(f"{source}>{target}" for source, target in nodes)
        self._cluster.note(f"cut: {names}")
        for source, target in cut:
            self._cuts[source.name, target.name] += 1
            self._cluster.network.cut(source, target)

        def end() -> None:
            self._cluster.note(f"mended: {names}")
            for source, target in cut:
                self._cuts[source.name, target.name] -= 1
                if not self._cuts[source.name, target.name]:
                    self._cluster.network.mend(source, target)

        return end

    def _is_node(self, host: SimulatedHost) -> bool:
        return any(node.host is host for node in self._cluster.nodes.values())

    def part(self, one: Nodes, other: Nodes, chance: Chance) -> End:
        """Cut both ways between two parts; each client stands on one side, or on both."""
        sides: tuple[list[SimulatedHost], list[SimulatedHost]]
        sides = ([node.host for node in one], [node.host for node in other])
        for client in self._cluster.client_hosts():
            side = chance.below(3)
            if side < 2:
                sides[side].append(client)
        ways = [(near, far) for near in sides[0] for far in sides[1]]
        return self._cut([*ways, *((far, near) for near, far in ways)])

    def isolate(self, nodes: Nodes, chance: Chance) -> End | None:
        return self.part(nodes[:1], nodes[1:], chance)

    def halves(self, nodes: Nodes, chance: Chance) -> End | None:
        middle = (len(nodes) + chance.below(2)) // 2
        return self.part(nodes[:middle], nodes[middle:], chance)

    def ring(self, nodes: Nodes, _chance: Chance) -> End | None:
        """Each node reaches its two neighbours only; of three, two are cut from each other."""
        count = len(nodes)
        far = [
            (one.host, other.host)
            for i, one in enumerate(nodes)
            for j, other in enumerate(nodes)
            if (i - j) % count not in {0, 1, count - 1} or (count == 3 and {i, j} == {0, 2})
        ]
        return self._cut(far)

    def one_way(self, nodes: Nodes, chance: Chance) -> End | None:
        one, others = nodes[0], nodes[1 : 2 + chance.below(len(nodes) - 1)]
        ways = [(one.host, other.host) for other in others]
        return self._cut(ways if chance.below(2) else [(b, a) for a, b in ways])

    def delay(self, nodes: Nodes, chance: Chance) -> End | None:
        delay = chance.choose(DELAYS_SECONDS)
        links = [
            self._cluster.network.link(*way)
            for node in nodes[1:]
            for way in ((nodes[0].host, node.host), (node.host, nodes[0].host))
        ]
        for link in links:
            link.delay_seconds = delay
        self._cluster.note(f"{nodes[0]} is {delay[1]} s away")

        def end() -> None:
            self._cluster.note(f"{nodes[0]} is near again")
            for link in links:
                link.delay_seconds = self._cluster.network.delay_seconds

        return end

    def slow_link(self, nodes: Nodes, chance: Chance) -> End | None:
        link = self._cluster.network.link(nodes[0].host, nodes[1].host)
        link.bytes_per_second = chance.choose(SLOW_BYTES_PER_SECOND)
        ways = f"{nodes[0]} to {nodes[1]}"
        self._cluster.note(f"{ways}: {link.bytes_per_second:.0f} bytes a second")

        def end() -> None:
            self._cluster.note(f"{ways}: fast again")
            link.bytes_per_second = None

        return end

    # Disks

    def full_disk(self, nodes: Nodes, chance: Chance) -> End | None:
        if self.is_fragile:
            return None
        self._fall_ill(nodes[0])
        disk.fill(nodes[0], chance)
        return lambda: self._mend_and_start(nodes[0])

    def bad_disk(self, nodes: Nodes, chance: Chance) -> End | None:
        if self.is_fragile:
            return None
        self._fall_ill(nodes[0])
        disk.fail(nodes[0], chance)
        return lambda: self._mend_and_start(nodes[0])

    def slow_disk(self, nodes: Nodes, chance: Chance) -> End | None:
        disk.slow(nodes[0], chance)
        return lambda: self._mend(nodes[0])

    def hung_disk(self, nodes: Nodes, chance: Chance) -> End | None:
        """For longer than most timeouts, or for as long as there are faults."""
        disk.hang(nodes[0], chance)
        return (lambda: self._mend(nodes[0])) if chance.below(2) else (lambda: None)

    def no_descriptors(self, nodes: Nodes, chance: Chance) -> End | None:
        """Its disk is well: no directory may go offline by it, except while it is opened."""
        node = nodes[0]
        if node.node_id in self._bad_disks or not node.has_served or node.is_stopping:
            return None
        disk.take_descriptors(node, chance)
        incarnation = node.incarnations

        def end() -> None:
            if node.incarnations == incarnation and node.node_id not in self._ill_disks:
                if node.has_offline_directory:
                    self._cluster.violation("offline", f"{node}: for want of descriptors")
                disk.mend(node)

        return end

    def new_disk(self, nodes: Nodes, chance: Chance) -> End | None:
        node = nodes[0]
        others = node.other_directories
        if (node.config.is_controller and not others) or not self.may_lose(node):
            return None
        self.has_lost = True
        node.kill()
        if others and (node.config.is_controller or chance.below(2)):
            node.replace(chance.choose(others))
        else:
            node.wipe()
        return self._starting([node])

    def _fall_ill(self, node: SimulatedNode) -> None:
        self._ill_disks.add(node.node_id)
        self._bad_disks.add(node.node_id)

    def _mend(self, node: SimulatedNode) -> None:
        self._ill_disks.discard(node.node_id)
        disk.mend(node)

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.files.go_on()
        if node.node_id in self._bad_disks or node.has_slow_disk:
            self._mend(node)

    def _mend_and_start(self, node: SimulatedNode) -> None:
        """A node that has noticed is down by now; one that has not is restarted, and does."""
        self._mend(node)
        if node.node is not None:
            node.kill()
        self.start(node)

    # What operators do

    def rolling_restart(self, nodes: Nodes, _chance: Chance) -> End | None:
        if self.tasks and not self.tasks[-1].done:
            return None
        self.tasks.append(run(self._cluster.scheduler.turn, self._roll(nodes)))
        return lambda: None

    async def _roll(self, nodes: Nodes) -> None:
        cluster = self._cluster
        for node in nodes:
            if node.node is None or node.is_stopping or node.scheduler.is_paused or self.is_over:
                continue
            await self._restart(node)
            for _ in range(int(SYNC_SECONDS)):
                await cluster.sleep(1.0)
                if cluster.is_in_sync() or self.is_over:
                    break

    async def _restart(self, node: SimulatedNode) -> None:
        incarnation = node.incarnations
        node.stop()
        for _ in range(int(STOP_SECONDS)):
            if node.incarnations != incarnation or node.node is None:
                break
            await self._cluster.sleep(1.0)
        if node.incarnations == incarnation and not (node.is_running and self.is_fragile):
            if node.node is not None:
                node.kill()
            self.start(node)

    def change_voters(self, nodes: Nodes, _chance: Chance) -> End | None:
        if self.tasks and not self.tasks[-1].done:
            return None
        for node in nodes:
            raft = node.raft
            if node.config.is_controller and raft is not None:
                if raft.kraft_version == 0:
                    return None
                self.tasks.append(
                    run(self._cluster.scheduler.turn, leave_and_join(self._cluster, node))
                )
                return lambda: None
        return None


KINDS: Final[dict[str, Callable[[Faults, Nodes, Chance], End | None]]] = {
    "kill": Faults.kill,
    "kill-all": Faults.kill_all,
    "power": Faults.lose_power,
    "pause": Faults.pause,
    "skew": Faults.skew,
    "isolate": Faults.isolate,
    "halves": Faults.halves,
    "ring": Faults.ring,
    "one-way": Faults.one_way,
    "delay": Faults.delay,
    "slow-link": Faults.slow_link,
    "full-disk": Faults.full_disk,
    "bad-disk": Faults.bad_disk,
    "slow-disk": Faults.slow_disk,
    "new-disk": Faults.new_disk,
    "rolling": Faults.rolling_restart,
    "voters": Faults.change_voters,
    "hung-disk": Faults.hung_disk,
    "no-descriptors": Faults.no_descriptors,
}
RARE: Final = ("hung-disk", "no-descriptors")
"""Drawn by themselves, beside the others."""
