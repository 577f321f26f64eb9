"""Where a follower cuts its log: KIP-101 (both cases) and KIP-279."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.planted.moves import TOPIC, lead_in_turn
from tests.simulation.planted.stage import Case, at_rest, leader_of, pause, replaced

from ottla.replication.fetching import Fetcher
from ottla.replication.partition import Partition
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.workloads.records import Records

QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
LOST = frozenset(
    {
        "leader-completeness",
        "isr-superset",
        "lost-write",
        "log-matching",
        "committed-log",
        "inconsistent-offsets",
        "vanished-read",
        "equal-replicas",
        "monotone-high-watermark",
        "follower-high-watermark",
    }
)


def cuts_to_its_high_watermark() -> Iterator[None]:
    """KIP-101, first case: what the leader has acknowledged may lie above it."""
    real = Fetcher.add

    def add(self: Fetcher, partition: Partition, leader_epoch: int, now_ms: int) -> None:
        log = partition.log
        if log.high_watermark < log.log_end_offset:
            partition.truncate_to(log.high_watermark, now_ms)
        real(self, partition, leader_epoch, now_ms)

    return replaced(Fetcher, "add", add)


def compares_no_epochs() -> Iterator[None]:
    """KIP-101, second case: a log that is long enough is taken to be the same."""

    def diverging(_self: Partition, _offset: int, _epoch: int) -> None:
        return None

    return replaced(Partition, "_diverging_epoch", diverging)


def answers_with_the_next_epoch() -> Iterator[None]:
    """KIP-279: asked for an epoch that it does not know, a leader names the start of the next."""

    def diverging(self: Partition, offset: int, epoch: int) -> tuple[int, int] | None:
        end = self.log.end_offset_for_epoch(epoch)
        if end.epoch == epoch:
            return (epoch, end.end_offset) if end.end_offset < offset else None
        later = [each for each in self.log.epochs.entries if each.epoch > epoch]
        start = later[0].start_offset if later else self.log.log_end_offset
        return (epoch, start) if start < offset else None

    return replaced(Partition, "_diverging_epoch", diverging)


async def leaders_die_one_after_the_other(cluster: SimulatedCluster) -> None:
    """The next leader is killed a moment after its election, before the others have fetched."""
    chance = cluster.part("trouble")
    brokers = cluster.brokers
    for _ in range(6):
        await pause(cluster, chance.between(2.0, 4.0))
        for node in brokers:
            for other in brokers:
                link = cluster.network.link(node.host, other.host)
                link.delay_seconds = (0.0, chance.choose((0.002, 0.3)))
        killed = []
        for _ in range(2):
            leader = leader_of(cluster, TOPIC)
            if leader is None:
                break
            leader.kill()
            killed.append(leader)
            for _ in range(1000):
                if leader_of(cluster, TOPIC) is not None:
                    break
                await pause(cluster, 0.02)
            await pause(cluster, chance.between(0.0, 0.2))
        for node in killed:
            node.start()
        cluster.network.mend_all()
        await at_rest(cluster)


async def leaders_are_cut_off(cluster: SimulatedCluster) -> None:
    """What a leader has appended alone must go when it comes back."""
    chance = cluster.part("trouble")
    for _ in range(4):
        await pause(cluster, chance.between(2.0, 5.0))
        leader = leader_of(cluster, TOPIC)
        if leader is None:
            continue
        others = [node.host for node in cluster.nodes.values() if node is not leader]
        cluster.network.separate([leader.host], others)
        await pause(cluster, chance.between(5.0, 12.0))
        cluster.network.mend_all()
        await at_rest(cluster)


KIP_101_FIRST = Case(
    name="KIP-101, first case",
    plant=contextmanager(cuts_to_its_high_watermark),
    trouble=leaders_die_one_after_the_other,
    workload=Records,
    finds=LOST,
    seconds=90.0,
    roles="separate",
    settings=QUICK,
)
KIP_101_SECOND = Case(
    name="KIP-101, second case",
    plant=contextmanager(compares_no_epochs),
    trouble=leaders_are_cut_off,
    workload=Records,
    finds=LOST,
    roles="separate",
    settings=QUICK,
)
KIP_279 = Case(
    name="KIP-279",
    plant=contextmanager(answers_with_the_next_epoch),
    trouble=lead_in_turn,
    workload=Records,
    finds=LOST,
    roles="separate",
)
