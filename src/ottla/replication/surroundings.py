"""What the partitions of a broker have around them: time, the other brokers, the controller.

One object for all of them, filled by the server. By itself it is the world of a broker that is
alone, where nobody can join an ISR.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.common.promise import Promise, settle_by
from ottla.common.turn import Turn, at_once
from ottla.observability.metrics import Meter

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


class PartitionSurroundings:
    def __init__(self) -> None:
        self.monotonic: Callable[[], float] = lambda: 0.0
        self.turn = Turn(at_once)
        self.registration: Callable[[int], Registration | None] = lambda _broker_id: None
        """Of a broker, the newest that is known."""
        self.broker_epoch: Callable[[], int] = lambda: -1
        """This broker's own."""
        self.propose: Callable[[Partition, ProposedIsr], None] = lambda _partition, _isr: None
        """Ask for another ISR; ``Partition.isr_altered`` or ``isr_refused`` hears of it."""
        self.flush: Callable[[Log], Promise[None]] = self._flush_at_once
        """Have all of a log on disk, off the loop where something else can do it."""
        self.start_behind_remote: Callable[[Partition, int, int], bool] = lambda *_: False
        """Have a followed log begin behind what only the remote store has; whether there is one.

        Told of the offset and the epoch with which the leader's own disk begins. It takes a while;
        the follower asks again.
        """
        self.lag_time_max = 30.0
        """``replica.lag.time.max.ms``, in seconds."""
        self.isr_expands = Meter(0.0)
        self.isr_shrinks = Meter(0.0)
        self.failed_isr_updates = Meter(0.0)

    def _flush_at_once(self, log: "Log") -> Promise[None]:
        flushed: Promise[None] = Promise(self.turn)
        settle_by(flushed, lambda: log.flush(log.last_flush_ms))
        return flushed
