"""Followed logs that are to begin behind what only the remote store has (KIP-405).

A follower that was away for long, or is new, finds that its leader's own disk begins behind its
end. It looks for the remote segment that ends there in the leader's lineage, takes epochs and
producers from the store, and lets its log begin behind that segment. Counterpart in Apache Kafka:
``TierStateMachine``.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.common.environment import Scheduler
from ottla.common.errors import ReplicaNotAvailable
from ottla.common.promise import Promise, run
from ottla.observability.logging import logger
from ottla.storage.leader_epochs import EpochEnd
from ottla.storage.log import Log
from ottla.tiered.aux_state import read_aux_state
from ottla.tiered.driver.log_tasks import MAY_PASS
from ottla.tiered.metadata_topic import Key, MetadataTopic
from ottla.tiered.pool import Pool
from ottla.tiered.segments import TopicIdPartition
from ottla.tiered.store import RemoteStore

log = logger(__name__)


class LeaderLog(NamedTuple):
    """What a leader says of its log."""

    local_start: int
    epoch: int
    """In which the record at ``local_start`` was written."""
    end_of_epoch: Callable[[int], Promise[EpochEnd]]


class FollowerStarts:
    def __init__(
        self, metadata: MetadataTopic, store: RemoteStore, pool: Pool, scheduler: Scheduler
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._pool = pool
        self._scheduler = scheduler
        self._under_way: dict[Key, None] = {}

    def begin(
        self,
        partition: TopicIdPartition,
        leader: LeaderLog,
        followed: Callable[[], Log | None],
    ) -> None:
        """Begin, unless it is under way; ``followed`` gives the log while it is to be changed.

        What fails is asked for again by the caller.
        """
        key = partition.topic_id, partition.partition
        if key not in self._under_way:
            self._under_way[key] = None
            done = run(self._scheduler.turn, self._start(partition, leader, followed))
            done.when_done(lambda outcome: self._ended(partition, outcome))

    def _ended(self, partition: TopicIdPartition, outcome: Promise[None]) -> None:
        del self._under_way[partition.topic_id, partition.partition]
        try:
            outcome.result()
        except MAY_PASS as error:
            log.warning(
                "a follower cannot begin behind the remote store yet",
                partition=str(partition),
                reason=repr(error),
            )

    async def _start(
        self,
        partition: TopicIdPartition,
        leader: LeaderLog,
        followed: Callable[[], Log | None],
    ) -> None:
        remote = await self._metadata.load(partition)
        last = leader.local_start - 1
        epoch = await _epoch_at(last, leader)
        segment = remote.segments.find(epoch, last)
        if segment is None:
            raise ReplicaNotAvailable(f"no remote segment has offset {last} of epoch {epoch}")
        state = await self._pool.submit(partial(read_aux_state, self._store, segment))
        local = followed()
        if local is not None and local.log_end_offset < leader.local_start:
            now_ms = self._scheduler.wall_ms()
            local.start_behind_remote(state.next_offset, state.epochs, state.producers, now_ms)
            local.set_highest_remote_offset(segment.end_offset)


async def _epoch_at(offset: int, leader: LeaderLog) -> int:
    """In which epoch the leader's log has ``offset``, the last before its own disk begins."""
    if leader.epoch > 0:
        earlier = await leader.end_of_epoch(leader.epoch - 1)
        if earlier.end_offset > offset:
            return earlier.epoch
    return leader.epoch
