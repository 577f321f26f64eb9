"""Tiered storage in a run: whether there is some, with which topics, settings and store."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.simulation.remote_store import MOODS
from ottla.simulation.workloads.lossy import LossyTier
from ottla.simulation.workloads.tiered import (
    ChangingTieredRecords,
    ExpiringTieredRecords,
    TieredRecords,
)

ONE_IN: Final = 4
_METADATA: Final = "rlmm.config.remote.log.metadata"


class Tier(NamedTuple):
    workloads: tuple[str, ...] = ()
    settings: Mapping[str, str] = MappingProxyType({})
    store: str = ""
    """Its mood while there are faults."""


def draw_tier(seed: int) -> Tier:
    """A quarter of all seeds have a remote store.

    Its metadata is read in small pieces, and brokers that come back soon lead again: what they do
    not know yet is what they may be wrong about. In half of these an administrator changes what is
    in the store; in a quarter its metadata may be lost by unclean elections.
    """
    chance = Chance(int.from_bytes(f"{seed}/tier".encode()))
    if chance.below(ONE_IN):
        return Tier()
    workloads = chance.choose(
        (
            (TieredRecords.NAME,),
            (ExpiringTieredRecords.NAME,),
            (TieredRecords.NAME, ExpiringTieredRecords.NAME),
        )
    )
    choices = {
        "remote.log.manager.task.interval.ms": (200, 1_000, 5_000),
        "remote.log.manager.copier.thread.pool.size": (1, 10),
        "remote.log.manager.expiration.thread.pool.size": (1, 10),
        "remote.log.manager.task.retry.backoff.max.ms": (1_000, 5_000),
        "remote.log.index.file.cache.total.size.bytes": (5_000, 1 << 30),
        "leader.imbalance.check.interval.seconds": (1, 3, 300),
        "log.flush.start.offset.checkpoint.interval.ms": (1_000, 60_000),
        f"{_METADATA}.topic.num.partitions": (1, 3, 5),
        f"{_METADATA}.consumer.max.partition.fetch.bytes": (1, 500, 1 << 20),
        f"{_METADATA}.consumer.fetch.max.bytes": (1, 2_000, 8 << 20),
    }
    settings = {key: str(chance.choose(values)) for key, values in choices.items()}
    settings["remote.log.storage.system.enable"] = "true"
    store = chance.choose(tuple(MOODS))
    more = Chance(int.from_bytes(f"{seed}/more of the tier".encode()))
    if more.below(2) == 0:
        workloads = (*workloads, ChangingTieredRecords.NAME)
    if more.below(4) == 0:
        workloads = (*workloads, LossyTier.NAME)
    return Tier(workloads, settings, store)
