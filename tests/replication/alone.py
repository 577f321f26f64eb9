"""A broker that is alone: nobody can join an ISR, and flushes end at once."""

from collections.abc import Callable
from typing import Any

from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.promise import Promise, settle_by
from ottla.replication.outside import PartitionOutside, Registration
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.waiting import WaitingRequests
from ottla.storage.log import Log


class AloneBrokers:
    def __init__(
        self, registration: Callable[[int], Registration | None] = lambda _broker_id: None
    ) -> None:
        self._registration = registration

    def registration(self, broker_id: int) -> Registration | None:
        return self._registration(broker_id)

    def broker_epoch(self) -> int:
        return -1


class FollowedNoted:
    """Notes what is followed, and follows nothing."""

    def __init__(self) -> None:
        self.followed: list[int] = []
        self.unfollowed: list[int] = []

    def follow(self, partition: Partition) -> None:
        self.followed.append(partition.index)

    def unfollow(self, partition: Partition) -> None:
        self.unfollowed.append(partition.index)


def flush_at_once(log: Log) -> Promise[None]:
    flushed: Promise[None] = Promise(TURN)
    settle_by(flushed, lambda: log.flush(log.last_flush_ms))
    return flushed


def alone(**given: Any) -> PartitionOutside:
    """What the partitions of such a broker are given, but for what a test says."""
    defaults: dict[str, Any] = {
        "monotonic": lambda: 0.0,
        "turn": TURN,
        "brokers": AloneBrokers(),
        "propose": lambda _partition, _isr: None,
        "flush": flush_at_once,
        "start_behind_remote": lambda *_: False,
        "lag_time_max": 30.0,
    }
    return PartitionOutside(**{**defaults, **given})


def alone_replicas(
    logs: Any,
    scheduler: Scheduler,
    node_id: int = 1,
    followed: FollowedNoted | None = None,
    **given: Any,
) -> Replicas:
    """The replicas of such a broker; ``given`` is for what its partitions see."""
    return Replicas(
        node_id=node_id,
        logs=logs,
        outside=alone(
            **{
                "monotonic": scheduler.monotonic,
                "turn": scheduler.turn,
                **given,
            }
        ),
        waiting=WaitingRequests(scheduler),
        followed=followed or FollowedNoted(),
        leader_throttle=None,
        chance=Chance(7),
        fetch_session_slots=10,
    )
