"""The answers to a node's requests, from Kafka's messages to events.

An answer that is not of the right form is a failed request: it is sent again after a while.
"""

from collections.abc import Sequence
from typing import Protocol, assert_never

from ottla.common.errors import ApiError, CorruptMessage, ErrorCode
from ottla.protocol.generated import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    update_raft_voter,
    vote,
)
from ottla.protocol.message import Message
from ottla.raft.divergence import truncation_point
from ottla.raft.effects import (
    BeginEpoch,
    EndEpoch,
    FetchLog,
    FetchSnapshot,
    JoinVoters,
    RaftRequest,
    RequestVote,
    UpdateVoter,
)
from ottla.raft.events import (
    Answered,
    FetchAnswered,
    RaftEvent,
    RequestFailed,
    SnapshotAnswered,
    VoteAnswered,
)
from ottla.raft.log import METADATA_PARTITION, OffsetAndEpoch, RaftLog
from ottla.raft.snapshots import SnapshotId, SnapshotStore
from ottla.raft.voters import LeaderInfo, VoterEndpoint
from ottla.records.batch import batches, read_header
from ottla.records.validation import check_batches


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


class AnswerReader:
    """Reads answers in the light of our own log."""

    __slots__ = ("_listener_name", "_log", "_snapshots")

    def __init__(self, listener_name: str, log: RaftLog, snapshots: SnapshotStore) -> None:
        self._listener_name = listener_name
        self._log = log
        self._snapshots = snapshots

    def read(self, now: float, request: RaftRequest, response: Message) -> RaftEvent:
        try:
            event = self._read(now, request, response)
        except (IndexError, ApiError):
            event = None
        return RequestFailed(now, request) if event is None else event

    def _read(self, now: float, request: RaftRequest, response: Message) -> RaftEvent | None:
        match request:
            case RequestVote():
                return self._vote(now, request, response)
            case BeginEpoch():
                assert isinstance(response, begin_quorum_epoch.BeginQuorumEpochResponse)
                return self._epoch(now, request, response)
            case EndEpoch():
                assert isinstance(response, end_quorum_epoch.EndQuorumEpochResponse)
                return self._epoch(now, request, response)
            case FetchLog():
                return self._fetch(now, request, response)
            case FetchSnapshot():
                return self._fetch_snapshot(now, request, response)
            case UpdateVoter():
                assert isinstance(response, update_raft_voter.UpdateRaftVoterResponse)
                current = response.current_leader
                endpoints = ()
                leader = LeaderInfo(current.leader_epoch, current.leader_id, endpoints)
                return Answered(now, request, response.error_code, leader)
            case JoinVoters():
                # Whether it worked, the log will tell; if not, we ask again after a while.
                return Answered(now, request, ErrorCode.NONE, LeaderInfo(request.epoch))
            case _:
                assert_never(request)

    def _leader(self, epoch: int, leader_id: int, nodes: Sequence[_NodeEndpoint]) -> LeaderInfo:
        endpoints = tuple(
            VoterEndpoint(self._listener_name, each.host, each.port)
            for each in nodes
            if each.node_id == leader_id
        )
        return LeaderInfo(epoch, max(leader_id, -1), endpoints)

    def _vote(self, now: float, request: RequestVote, response: Message) -> RaftEvent | None:
        assert isinstance(response, vote.VoteResponse)
        if response.error_code != ErrorCode.NONE:
            return None
        partition = response.topics[0].partitions[0]
        leader = self._leader(partition.leader_epoch, partition.leader_id, response.node_endpoints)
        return VoteAnswered(now, request, partition.error_code, leader, partition.vote_granted)

    def _epoch(
        self,
        now: float,
        request: BeginEpoch | EndEpoch,
        response: begin_quorum_epoch.BeginQuorumEpochResponse
        | end_quorum_epoch.EndQuorumEpochResponse,
    ) -> RaftEvent | None:
        if response.error_code != ErrorCode.NONE:
            return None
        partition = response.topics[0].partitions[0]
        leader = self._leader(partition.leader_epoch, partition.leader_id, response.node_endpoints)
        return Answered(now, request, partition.error_code, leader)

    def _fetch(self, now: float, request: FetchLog, response: Message) -> RaftEvent | None:
        assert isinstance(response, fetch.FetchResponse)
        if response.error_code != ErrorCode.NONE:
            return None
        partition = response.responses[0].partitions[0]
        current = partition.current_leader
        leader = self._leader(current.leader_epoch, current.leader_id, response.node_endpoints)
        if partition.error_code != ErrorCode.NONE:
            return FetchAnswered(now, request, partition.error_code, leader)
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        high_watermark = partition.high_watermark
        if diverging.epoch >= 0:
            point = truncation_point(
                self._log,
                self._snapshots.ids(),
                OffsetAndEpoch(diverging.end_offset, diverging.epoch),
            )
            offset = min(point.offset, self._log.end_offset)
            return FetchAnswered(now, request, 0, leader, high_watermark, truncate_to=offset)
        if snapshot.epoch >= 0 or snapshot.end_offset >= 0:
            if snapshot.epoch < 0 or snapshot.end_offset < 0:
                return None
            snapshot_id = SnapshotId(snapshot.end_offset, snapshot.epoch)
            return FetchAnswered(now, request, 0, leader, high_watermark, snapshot_id=snapshot_id)
        records = _whole_batches(bytes(partition.records or b""), request)
        return FetchAnswered(now, request, 0, leader, high_watermark, records)

    def _fetch_snapshot(
        self, now: float, request: FetchSnapshot, response: Message
    ) -> RaftEvent | None:
        assert isinstance(response, fetch_snapshot.FetchSnapshotResponse)
        if response.error_code != ErrorCode.NONE:
            return None
        topic = response.topics[0]
        partition = topic.partitions[0]
        if (topic.name, partition.index) != METADATA_PARTITION:
            return None
        current = partition.current_leader
        return SnapshotAnswered(
            now,
            request,
            partition.error_code,
            self._leader(current.leader_epoch, current.leader_id, response.node_endpoints),
            SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
            partition.size,
            partition.position,
            bytes(partition.unaligned_records),
        )


def _whole_batches(data: bytes, request: FetchLog) -> bytes:
    """The batches in ``data`` without one that is cut at the end.

    CorruptMessage unless they are sound and follow our log without a gap, in epochs that rise.
    """
    end, offset, epoch = 0, request.offset, request.last_epoch
    for position, size in batches(data):
        header = read_header(data, position)
        if header.base_offset != offset or not (
            epoch <= header.partition_leader_epoch <= request.epoch
        ):
            raise CorruptMessage(f"offset {header.base_offset} does not follow {offset}")
        end, offset, epoch = position + size, header.last_offset + 1, header.partition_leader_epoch
    if end:
        check_batches(memoryview(data), 0, end)
    elif data:
        raise CorruptMessage("a fetch brought no whole batch")
    return data[:end]
