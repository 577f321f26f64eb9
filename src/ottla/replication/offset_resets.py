"""What a follower does whose offset its leader does not have: ask where the leader's log lies.

Rules (Kafka's ``fetchOffsetAndTruncate``):
1. A leader whose log ends before ours was elected uncleanly: ours is cut to that end.
2. A leader whose log begins behind our end has deleted what we lack: we forget everything and begin
   where it begins.
3. Otherwise it has got further meanwhile: we go on from our end.
4. What lies only in the remote store is not copied: we begin where the leader's own disk begins,
   with the leader epochs and producers that the store has of what was before. That takes a while,
   and is asked for until our log begins there.

All partitions that need it are asked about together: first for ends, then for beginnings.
"""

from enum import Enum
from typing import Final

from ottla.common.errors import ErrorCode, KafkaStorageError
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.replication.fetch_state import FetchState

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4


class ResetOutcome(Enum):
    DONE = "done"
    AGAIN = "again"
    """Something went wrong; the fetch is tried again after a pause, and may bring us back here."""
    FENCED = "fenced"
    """There is a newer leader, of which we shall hear."""
    BROKEN = "broken"
    """The disk has failed."""


class _Reset:
    __slots__ = ("beginning", "leader_end", "leader_epoch", "state")

    def __init__(self, state: FetchState, beginning: int) -> None:
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.beginning = beginning
        """Which beginning of the leader's log is meant: all of it, or what is on its disk."""
        self.leader_end: int | None = None


class OffsetResets:
    def __init__(self, replica_id: int) -> None:
        self._replica_id = replica_id
        self._resets: dict[tuple[str, int], _Reset] = {}
        self._asked: list[_Reset] = []

    def begin(self, state: FetchState, *, is_remote: bool = False) -> None:
        state.is_resetting = True
        place = state.partition.topic, state.partition.index
        self._resets[place] = _Reset(state, EARLIEST_LOCAL if is_remote else EARLIEST)

    def forget(self, state: FetchState) -> None:
        self._resets.pop((state.partition.topic, state.partition.index), None)

    def request(self) -> ListOffsetsRequest | None:
        """What is to be asked next."""
        resets = self._resets.values()
        self._asked = [each for each in resets if each.leader_end is None] or list(resets)
        if not self._asked:
            return None
        topics: dict[str, ListOffsetsTopic] = {}
        for reset in self._asked:
            partition = reset.state.partition
            topic = topics.setdefault(
                partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[])
            )
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.index,
                    current_leader_epoch=reset.leader_epoch,
                    timestamp=LATEST if reset.leader_end is None else reset.beginning,
                )
            )
        return ListOffsetsRequest(
            replica_id=self._replica_id, isolation_level=0, topics=list(topics.values())
        )

    def answered(
        self, answer: ListOffsetsResponse, now_ms: int
    ) -> list[tuple[FetchState, ResetOutcome]]:
        """Those whose reset has come to an end, and how."""
        found = {
            (topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        ended: list[tuple[FetchState, ResetOutcome]] = []
        for reset in self._asked:
            partition = reset.state.partition
            place = partition.topic, partition.index
            if self._resets.get(place) is not reset:
                continue  # removed, or begun anew, while the question was under way
            said = found.get(place)
            if said is None or said.error_code or said.offset < 0:
                fenced = said is not None and said.error_code == ErrorCode.FENCED_LEADER_EPOCH
                ended.append((reset.state, ResetOutcome.FENCED if fenced else ResetOutcome.AGAIN))
            else:
                try:
                    outcome = self._learned(reset, said.offset, said.leader_epoch, now_ms)
                    if outcome is not None:
                        ended.append((reset.state, outcome))
                except KafkaStorageError:
                    ended.append((reset.state, ResetOutcome.BROKEN))
        self._asked = []
        for state, _ in ended:
            state.is_resetting = False
            self.forget(state)
        return ended

    def failed(self) -> list[FetchState]:
        """No answer came: the partitions that were asked about."""
        states = [reset.state for reset in self._asked if reset.state.is_resetting]
        for state in states:
            state.is_resetting = False
            self.forget(state)
        self._asked = []
        return states

    def _learned(self, reset: _Reset, offset: int, epoch: int, now_ms: int) -> ResetOutcome | None:
        """Take note of where the leader's log ends or begins; None when there is more to ask."""
        state, partition = reset.state, reset.state.partition
        own_end = partition.log.log_end_offset
        if reset.leader_end is None:
            if offset >= own_end:
                reset.leader_end = offset
                return None
            partition.truncate_to(offset, now_ms)
            state.at_log_end()
            state.lag = 0
            return ResetOutcome.DONE
        if offset > own_end:
            is_remote = reset.beginning == EARLIEST_LOCAL
            if is_remote and partition.start_behind_remote(offset, epoch):
                return ResetOutcome.AGAIN
            partition.truncate_fully_and_start_at(offset, now_ms)
        state.at_log_end()
        state.lag = max(0, reset.leader_end - state.offset)
        return ResetOutcome.DONE
