"""The in-sync replicas of a partition: the set the controller has, and the one asked for.

Rules:
1. One change at a time is asked for; until its answer nothing else is.
2. The high watermark counts the maximal ISR: while an expansion is under way the new member counts
   already, since the controller may have taken it; while a shrinking is under way the leaving
   member counts still, since the controller may refuse.
3. Only an answer that says that nothing was changed takes a proposal back. After any other the
   controller may have changed it, and what the metadata log brings decides.

Counterpart in Apache Kafka: ``CommittedPartitionState``, ``PendingExpandIsr``,
``PendingShrinkIsr``.
"""

from typing import NamedTuple


class BrokerState(NamedTuple):
    """A member of an ISR, and the epoch of its fetches; -1 where none came."""

    broker_id: int
    broker_epoch: int


class ProposedIsr:
    """A change that the controller is asked for; equal only to itself."""

    __slots__ = ("is_expansion", "leader_epoch", "members", "partition_epoch")

    def __init__(
        self,
        members: tuple[BrokerState, ...],
        leader_epoch: int,
        partition_epoch: int,
        *,
        is_expansion: bool,
    ) -> None:
        self.members = members
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.is_expansion = is_expansion


class InSyncReplicas:
    __slots__ = ("committed", "maximal", "proposed")

    def __init__(self) -> None:
        self.committed: tuple[int, ...] = ()
        self.maximal: tuple[int, ...] = ()
        self.proposed: ProposedIsr | None = None

    def commit(self, isr: tuple[int, ...]) -> None:
        """The controller says that this is the ISR."""
        self.committed = self.maximal = isr
        self.proposed = None

    def propose(self, proposed: ProposedIsr) -> None:
        assert self.proposed is None
        self.proposed = proposed
        if proposed.is_expansion:
            self.maximal = tuple(member.broker_id for member in proposed.members)

    def take_back(self) -> None:
        """The controller has not changed anything."""
        self.proposed = None
        self.maximal = self.committed
