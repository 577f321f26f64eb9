"""What the partitions of a broker ask of the world outside: time, other brokers, the controller.

One object for all of them; the server, a test or a simulator gives it all that it needs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.common.promise import Promise
from ottla.common.turn import Turn
from ottla.observability.metrics import Meter
from ottla.replication.replica_counts import ReplicaCounts
from ottla.replication.topic_counts import CountedTopics

if TYPE_CHECKING:
    from ottla.replication.isr import ProposedIsr
    from ottla.replication.partition import Partition
    from ottla.storage.log import Log


class Registration(Protocol):
    """What the metadata log says of a broker."""

    @property
    def epoch(self) -> int: ...

    @property
    def fenced(self) -> bool: ...

    @property
    def in_controlled_shutdown(self) -> bool: ...


class PartitionState(Protocol):
    """What the metadata log says of a partition."""

    @property
    def leader(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def partition_epoch(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def isr(self) -> tuple[int, ...]: ...

    @property
    def adding_replicas(self) -> tuple[int, ...]: ...

    def directory_of(self, replica: int) -> bytes: ...


class Brokers(Protocol):
    """The brokers of the cluster, as this one knows them now."""

    def registration(self, broker_id: int) -> Registration | None:
        """Of a broker, the newest that is known."""
        ...

    def broker_epoch(self) -> int:
        """This broker's own; -1 before it is registered."""
        ...


class PartitionOutside:
    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        turn: Turn,
        brokers: Brokers,
        propose: "Callable[[Partition, ProposedIsr], None]",
        flush: "Callable[[Log], Promise[None]]",
        start_behind_remote: "Callable[[Partition, int, int], bool]",
        lag_time_max: float,
    ) -> None:
        self.monotonic = monotonic
        self.turn = turn
        self.brokers = brokers
        self.propose = propose
        """Ask for another ISR; ``Partition.isr_altered`` or ``isr_refused`` hears of it."""
        self.flush = flush
        """Have all of a log on disk, off the loop where something else can do it."""
        self.start_behind_remote = start_behind_remote
        """Have a followed log begin behind what only the remote store has; whether there is one.

        Told of the offset and the epoch with which the leader's own disk begins. It takes a while;
        the follower asks again.
        """
        self.lag_time_max = lag_time_max
        """``replica.lag.time.max.ms``, in seconds."""
        self.counts = ReplicaCounts()
        self.topics = CountedTopics()
        self.isr_expands = Meter(0.0)
        self.isr_shrinks = Meter(0.0)
        self.failed_isr_updates = Meter(0.0)
