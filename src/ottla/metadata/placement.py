"""Where the replicas of new partitions go.

Brokers are taken in stripes: one rack after the other, and within a rack one broker after the
other. The turns of leaders and of followers are counted apart, so that both spread evenly over the
brokers of a rack, whatever their number and that of replicas; and a partition has no two replicas
in a rack while another rack has none. Fenced brokers take followers, never the first place, so that
the partition has a leader at once.

Pure: where the stripes begin is drawn from the chance that is passed in.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import InvalidReplicationFactor

REPLICATION_FACTOR_MAX = 32767


class UsableBroker(NamedTuple):
    node_id: int
    rack: str | None
    fenced: bool


class _Ring:
    """Brokers of one kind in a fixed order; each partition begins where it is their turn."""

    __slots__ = ("_brokers", "_followed", "_led", "_position", "_round", "_start")

    def __init__(self, brokers: Sequence[int], chance: Chance) -> None:
        self._brokers = list(brokers)
        for last in range(len(self._brokers) - 1, 0, -1):
            chosen = chance.below(last + 1)
            self._brokers[chosen], self._brokers[last] = self._brokers[last], self._brokers[chosen]
        self._led = 0
        """For how many partitions it was asked for a leader first."""
        self._followed = 0
        self._start = 0
        self._position = 0
        self._round = -1

    def __len__(self) -> int:
        return len(self._brokers)

    def next(self, partition: int, *, leads: bool = False) -> int | None:
        """The next broker for ``partition``; None when it has had all of them."""
        size = len(self._brokers)
        if partition != self._round and size:
            self._begin(size, leads=leads)
            self._round = partition
        if self._position >= size:
            return None
        broker = self._brokers[(self._start + self._position) % size]
        self._position += 1
        return broker

    def _begin(self, size: int, *, leads: bool) -> None:
        """Followers go one further after each time around: no two brokers are always together."""
        self._position = 0
        if leads:
            self._start = self._led
            self._led += 1
        else:
            self._start = self._followed + self._followed // size
            self._followed += 1


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[UsableBroker], chance: Chance) -> None:
        self.unfenced = _Ring([b.node_id for b in brokers if not b.fenced], chance)
        self.fenced = _Ring([b.node_id for b in brokers if b.fenced], chance)

    def next(self, partition: int) -> int | None:
        broker = self.unfenced.next(partition)
        return self.fenced.next(partition) if broker is None else broker


def place_replicas(
    brokers: Sequence[UsableBroker],
    *,
    partitions: int,
    replication_factor: int,
    chance: Chance,
) -> list[list[int]]:
    """The replicas of each new partition; InvalidReplicationFactor with too few brokers."""
    _check(brokers, replication_factor)
    racks = _racks(brokers, chance)
    start = chance.below(len(racks))
    return [
        _place_one(racks, start + partition, partition, replication_factor)
        for partition in range(partitions)
    ]


def _check(brokers: Sequence[UsableBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: "
            "the replication factor must be positive."
        )
    if not any(not broker.fenced for broker in brokers):
        raise InvalidReplicationFactor(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )


def _racks(brokers: Sequence[UsableBroker], chance: Chance) -> list[_Rack]:
    by_rack: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker)
    return [_Rack(members, chance) for _, members in sorted(by_rack.items())]


def _place_one(
    racks: list[_Rack], start: int, partition: int, replication_factor: int
) -> list[int]:
    count = len(racks)
    replicas: list[int] = []
    turn = start
    while not replicas:  # the first place needs a broker that can lead now
        leader = racks[turn % count].unfenced.next(partition, leads=True)
        turn += 1
        if leader is not None:
            replicas.append(leader)
    while len(replicas) < replication_factor:
        broker = racks[turn % count].next(partition)
        turn += 1
        if broker is not None:
            replicas.append(broker)
    return replicas
