"""How far a follower is with one partition, as its fetcher sees it.

Counterpart in Apache Kafka: ``PartitionFetchState``.
"""

from typing import NamedTuple, TypeAlias

from ottla.replication.partition import Partition

FetchKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition index."""


class Told(NamedTuple):
    """What a leader is told of a partition that is fetched."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchState:
    __slots__ = (
        "delayed_until",
        "is_flushing",
        "is_held",
        "is_resetting",
        "is_throttled",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "offset",
        "partition",
        "refusals",
    )

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.key: FetchKey = (partition.topic_id, partition.index)
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.offset = 0
        self.last_fetched_epoch = -1
        self.lag: int | None = None
        """How far the leader's high watermark is ahead; None until the leader has said it."""
        self.delayed_until: float | None = None
        """Not fetched before, since something went wrong."""
        self.refusals = 0
        """How often in a row the leader has not known of its election."""
        self.is_resetting = False
        """The leader is being asked where its log begins and ends."""
        self.is_throttled = False
        """Whether it counts against ``follower.replication.throttled.rate``."""
        self.is_held = False
        """Not fetched while that is exceeded."""
        self.is_flushing = False
        """Not fetched before what came is on disk, since by fetching it would be claimed."""
        self.at_log_end()

    def at_log_end(self) -> None:
        """Go on from where the log ends."""
        log = self.partition.log
        self.offset = log.log_end_offset
        self.last_fetched_epoch = log.latest_epoch

    @property
    def is_ready(self) -> bool:
        return (
            self.delayed_until is None
            and not self.is_resetting
            and not self.is_held
            and not self.is_flushing
        )

    @property
    def is_in_sync(self) -> bool:
        return self.lag is not None and self.lag <= 0

    def told(self) -> Told:
        return Told(
            self.offset,
            self.leader_epoch,
            self.last_fetched_epoch,
            self.partition.log.log_start_offset,
        )
