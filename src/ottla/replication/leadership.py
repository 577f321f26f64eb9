"""What a leader knows of its followers, and what follows for ISR and high watermark.

Rules (Kafka 4.3's ``Partition``):
1. The high watermark is the least log end offset of the maximal ISR. A follower that is caught up
   and may join is waited for too, or it could never join under load.
2. While fewer replicas are in sync than ``min.insync.replicas`` it stands still (KIP-966): what is
   committed must be on that many.
3. A follower joins when it has everything up to the high watermark and to where this leader's epoch
   began, is neither fenced nor shutting down (KIP-841), and its fetches are of the incarnation that
   is registered (KIP-903): one that has restarted since may have lost what it had acknowledged.
4. A member that was not caught up for ``replica.lag.time.max.ms`` leaves.
"""

from typing import Final

from ottla.common.errors import NotLeaderOrFollower
from ottla.replication.follower_state import UNKNOWN_EPOCH, FollowerState
from ottla.replication.isr import BrokerState, InSyncReplicas, ProposedIsr
from ottla.replication.outside import PartitionOutside

NOT_LEADING: Final = -1


class Leadership:
    __slots__ = (
        "_node_id",
        "_outside",
        "epoch_start_offset",
        "followers",
        "in_sync",
    )

    def __init__(self, node_id: int, outside: PartitionOutside) -> None:
        self._node_id = node_id
        self._outside = outside
        self.in_sync = InSyncReplicas()
        self.followers: dict[int, FollowerState] = {}
        self.epoch_start_offset = NOT_LEADING
        """Where the log ended when this broker was elected."""

    def assign(self, replicas: tuple[int, ...]) -> None:
        """Lead these replicas."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerState(replica)
            for replica in replicas
            if replica != self._node_id
        }

    def begin_epoch(self, start_offset: int, *, is_new_leader: bool) -> None:
        now = self._outside.monotonic()
        self.epoch_start_offset = start_offset
        for broker_id, follower in self.followers.items():
            is_in_sync = broker_id in self.in_sync.committed
            follower.new_epoch(
                start_offset, now, is_new_leader=is_new_leader, is_in_sync=is_in_sync
            )

    def end(self) -> None:
        self.followers = {}
        self.in_sync.commit(())
        self.epoch_start_offset = NOT_LEADING

    # Fetches

    def fetched(
        self,
        follower: FollowerState,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        broker_epoch: int,
    ) -> bool:
        """Take note of a follower's fetch; whether its log end is another than before."""
        if broker_epoch != UNKNOWN_EPOCH:
            known = self._outside.brokers.registration(follower.broker_id)
            if known is not None and not known.fenced and known.epoch > broker_epoch:
                raise NotLeaderOrFollower(
                    f"Received stale fetch state update. broker epoch={broker_epoch} "
                    f"vs expected={known.epoch}"
                )
        before = follower.log_end_offset
        follower.fetched(
            offset, log_start_offset, leader_end, broker_epoch, self._outside.monotonic()
        )
        return offset != before

    def least_start_offset(self, leader_start: int) -> int:
        """Below it no replica that is alive has records."""
        least = leader_start
        for broker_id, follower in self.followers.items():
            known = self._outside.brokers.registration(broker_id)
            if known is not None and not known.fenced:
                least = min(least, follower.log_start_offset)
        return least

    def least_end_offset(self, leader_end: int) -> int:
        """Up to where all replicas have the log that the high watermark waits for."""
        least = leader_end
        maximal = self.in_sync.maximal
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < least and (
                broker_id in maximal or self._is_about_to_join(follower, leader_end)
            ):
                least = follower.log_end_offset
        return least

    def _is_about_to_join(self, follower: FollowerState, leader_end: int) -> bool:
        outside = self._outside
        is_caught_up = follower.is_caught_up(leader_end, outside.monotonic(), outside.lag_time_max)
        return is_caught_up and self._is_eligible(follower)

    def _is_eligible(self, follower: FollowerState) -> bool:
        known = self._outside.brokers.registration(follower.broker_id)
        if known is None or known.fenced or known.in_controlled_shutdown:
            return False
        if not follower.has_fetched:
            return False
        return follower.broker_epoch in (UNKNOWN_EPOCH, known.epoch)

    # Changes of the ISR

    def joins(self, follower: FollowerState, high_watermark: int) -> bool:
        """Whether the controller should be asked to take ``follower`` into the ISR."""
        in_sync = self.in_sync
        return (
            in_sync.proposed is None
            and follower.broker_id not in in_sync.committed
            and follower.log_end_offset >= high_watermark
            and follower.log_end_offset >= self.epoch_start_offset
            and self._is_eligible(follower)
        )

    def out_of_sync(self, leader_end: int) -> tuple[int, ...]:
        """The members of the ISR that have been behind for too long."""
        if self.in_sync.proposed is not None:
            return ()
        outside = self._outside
        now, lag_time_max = outside.monotonic(), outside.lag_time_max
        late = []
        for member in self.in_sync.committed:
            if member != self._node_id:
                follower = self.followers.get(member)
                if follower is None or not follower.is_caught_up(leader_end, now, lag_time_max):
                    late.append(member)
        return tuple(late)

    def propose(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> ProposedIsr:
        members = tuple(BrokerState(member, self._epoch_of(member)) for member in isr)
        is_expansion = len(isr) > len(self.in_sync.committed)
        proposed = ProposedIsr(members, leader_epoch, partition_epoch, is_expansion=is_expansion)
        self.in_sync.propose(proposed)
        return proposed

    def _epoch_of(self, member: int) -> int:
        """With which epoch the controller is told of a member.

        One that has not fetched since the election gets -1: should it restart now, the controller
        takes it out and the proposal comes too late.
        """
        if member == self._node_id:
            return self._outside.brokers.broker_epoch()
        follower = self.followers.get(member)
        return UNKNOWN_EPOCH if follower is None else follower.broker_epoch
