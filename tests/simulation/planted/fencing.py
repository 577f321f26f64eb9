"""Who may be believed: epochs of leaders and of brokers, and followers that serve readers.

KIP-320, KIP-392, KIP-841 and KIP-966.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tests.simulation.planted.moves import TOPIC, move_leader
from tests.simulation.planted.stage import Case, at_rest, leader_of, pause, replaced
from tests.simulation.planted.truncation import LOST, QUICK

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.controller import isr_checks
from ottla.controller.brokers import BrokersManager
from ottla.metadata.records import MetadataRecord
from ottla.protocol.fetch_response import FetchedPartition
from ottla.replication.follower_state import FollowerState
from ottla.replication.leadership import Leadership
from ottla.replication.partition import Partition
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient, World
from ottla.simulation.history import History, Isolation
from ottla.simulation.node import SimulatedNode
from ottla.simulation.workloads.consuming import Cursor
from ottla.simulation.workloads.records import Records


class ReadInRacks(Records):
    """A reader in the rack of each broker."""

    RACKS: ClassVar[tuple[str, ...]] = ("rack-4", "rack-5", "rack-6")

    def start(self) -> None:
        super().start()
        for rack in self.RACKS:
            self.begin(rack, self._read_in(rack))

    async def _read_in(self, rack: str) -> None:
        client = self.client(rack)
        cursors = [Cursor(client, place, Isolation.UNCOMMITTED, rack=rack) for place in self.places]
        while not self.is_stopping:
            for cursor in cursors:
                await cursor.poll(self.history, client.name)


# KIP-320


def looks_at_no_leader_epoch() -> Iterator[None]:
    """A fetch of another epoch counts, as long as the logs agree."""

    def check(_self: Partition, _current_leader_epoch: int) -> None:
        return None

    return replaced(Partition, "check_epoch", check)


class Busy(Records):
    def __init__(self, world: World, history: History) -> None:
        super().__init__(world, history, producers=6)


async def fetches_come_two_epochs_late(cluster: SimulatedCluster) -> None:
    """A follower's fetch arrives when its sender has been cut back, and the same leads again."""
    chance = cluster.part("trouble")
    client = ClusterClient(cluster, "mover")
    for _ in range(8):
        await pause(cluster, chance.between(0.5, 2.0))
        leader = leader_of(cluster, TOPIC)
        if leader is None:
            continue
        next_leader, late = chance_order(chance, leader, cluster.brokers)
        network = cluster.network
        network.link(next_leader.host, leader.host).delay_seconds = (0.6, 0.8)
        await pause(cluster, 0.6)
        network.link(late.host, leader.host).delay_seconds = (1.5, 2.0)
        await pause(cluster, chance.between(0.1, 0.4))
        await move_leader(cluster, client, next_leader.node_id)
        await pause(cluster, 0.2)
        network.link(next_leader.host, leader.host).delay_seconds = network.delay_seconds
        await move_leader(cluster, client, leader.node_id)
        await pause(cluster, 3.0)
        network.mend_all()
        await at_rest(cluster)


def chance_order(
    chance: Chance, leader: SimulatedNode, brokers: list[SimulatedNode]
) -> list[SimulatedNode]:
    """The two others, in either order."""
    others = [node for node in brokers if node is not leader]
    return others if chance.below(2) else others[::-1]


# KIP-392


async def one_follower_lags_and_the_leader_dies(cluster: SimulatedCluster) -> None:
    """The other one has what is not committed, and may have to cut it."""
    chance = cluster.part("trouble")
    for _ in range(6):
        await pause(cluster, chance.between(1.0, 3.0))
        leader = leader_of(cluster, TOPIC)
        if leader is None:
            continue
        _, lags = chance_order(chance, leader, cluster.brokers)
        cluster.network.separate([lags.host], [leader.host])
        await pause(cluster, chance.between(1.0, 2.5))
        leader.kill()
        cluster.network.mend_all()
        await pause(cluster, 5.0)
        leader.start()
        await at_rest(cluster)


def shows_readers_what_a_follower_has() -> Iterator[None]:
    """Up to the end of its log, not to its high watermark."""
    real = Partition.read

    def read(
        self: Partition,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        isolation_level: int,
        *,
        at_least_one: bool,
        last_fetched_epoch: int = -1,
        from_leader_only: bool = True,
    ) -> FetchedPartition:
        if self.is_leader or from_leader_only or isolation_level:
            return real(
                self,
                offset,
                max_bytes,
                current_leader_epoch,
                isolation_level,
                at_least_one=at_least_one,
                last_fetched_epoch=last_fetched_epoch,
                from_leader_only=from_leader_only,
            )
        self.check_epoch(current_leader_epoch)
        end = self.log.log_end_offset
        return self._read(offset, max_bytes, end, at_least_one, last_fetched_epoch)

    return replaced(Partition, "read", read)


# KIP-841


@contextmanager
def takes_anybody_into_the_isr() -> Iterator[None]:
    """Neither leader nor controller asks whether a follower is still who has fetched."""

    def members(*_args: object) -> ErrorCode:
        return ErrorCode.NONE

    def eligible(_self: Leadership, follower: FollowerState) -> bool:
        return follower.has_fetched

    one = contextmanager(lambda: replaced(isr_checks, "_check_members", members))
    other = contextmanager(lambda: replaced(Leadership, "_is_eligible", eligible))
    with one(), other():
        yield


async def followers_lose_power_as_they_join(cluster: SimulatedCluster) -> None:
    """While the leader's word of it is on its way to the controller, a follower loses its log."""
    chance = cluster.part("trouble")
    for _ in range(4):
        await pause(cluster, chance.between(1.0, 3.0))
        leader = leader_of(cluster, TOPIC)
        if leader is None:
            continue
        follower, other = [node for node in cluster.brokers if node is not leader]
        cluster.network.separate(
            [follower.host], [node.host for node in cluster.nodes.values() if node is not follower]
        )
        await pause(cluster, 8.0)
        cluster.network.mend_all()
        for node in cluster.controllers:
            cluster.network.link(leader.host, node.host).delay_seconds = (1.0, 2.0)
        for _ in range(4000):
            if _proposes(leader):
                break
            await pause(cluster, 0.005)
        follower.lose_power()
        follower.start()
        for node in (leader, other):
            cluster.network.link(follower.host, node.host).delay_seconds = (1.0, 2.0)
        await pause(cluster, chance.between(1.0, 4.0))
        for node in (leader, other):
            if node.is_running:
                node.kill()
        await pause(cluster, 6.0)
        cluster.network.mend_all()
        for node in (leader, other):
            node.start()
        await at_rest(cluster)


def _proposes(node: SimulatedNode) -> bool:
    """Whether a leader waits for the controller's word about its first partition."""
    return any(
        partition.leadership.in_sync.proposed is not None
        for partition in node.partitions()
        if (partition.topic, partition.index) == (TOPIC, 0)
    )


# KIP-966


def takes_every_restart_for_a_clean_one() -> Iterator[None]:
    real = BrokersManager._previous_incarnation_ended

    def ended(self: BrokersManager, broker_id: int, *, clean: bool) -> list[MetadataRecord]:
        del clean
        return real(self, broker_id, clean=True)

    return replaced(BrokersManager, "_previous_incarnation_ended", ended)


async def the_last_replica_loses_power(cluster: SimulatedCluster) -> None:
    """Both others are cut off, one after the other; then it forgets what it has not synced.

    The second one has all that is committed, and is eligible (ELR) when it is back.
    """
    chance = cluster.part("trouble")
    for _ in range(3):
        await pause(cluster, chance.between(2.0, 4.0))
        last = leader_of(cluster, TOPIC)
        if last is None:
            continue
        for far in chance_order(chance, last, cluster.brokers):
            others = [node.host for node in cluster.nodes.values() if node is not far]
            cluster.network.separate([far.host], others)
            await pause(cluster, chance.between(5.0, 8.0))
        last.lose_power()
        await pause(cluster, 0.5)
        last.start()
        await pause(cluster, chance.between(4.0, 8.0))
        cluster.network.mend_all()
        await at_rest(cluster)


KIP_320 = Case(
    name="KIP-320",
    plant=contextmanager(looks_at_no_leader_epoch),
    trouble=fetches_come_two_epochs_late,
    workload=Busy,
    finds=LOST,
    roles="separate",
)
KIP_392 = Case(
    name="KIP-392",
    plant=contextmanager(shows_readers_what_a_follower_has),
    trouble=one_follower_lags_and_the_leader_dies,
    workload=ReadInRacks,
    finds=frozenset({"vanished-read", "inconsistent-offsets", "poll-skip"}),
    seconds=90.0,
    roles="separate",
    settings=QUICK,
    first_seed=2,
)
KIP_841 = Case(
    name="KIP-841",
    plant=takes_anybody_into_the_isr,
    trouble=followers_lose_power_as_they_join,
    workload=Records,
    finds=LOST,
    seconds=90.0,
    roles="separate",
    settings=QUICK,
    features={"eligible.leader.replicas.version": 1},
)
KIP_966 = Case(
    name="KIP-966",
    plant=contextmanager(takes_every_restart_for_a_clean_one),
    trouble=the_last_replica_loses_power,
    workload=Records,
    finds=LOST,
    seconds=90.0,
    roles="separate",
    settings=QUICK,
    features={"eligible.leader.replicas.version": 1},
)
