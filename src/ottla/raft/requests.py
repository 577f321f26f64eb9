"""The requests of a node of the quorum as Kafka's messages."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.common.identifiers import METADATA_TOPIC_ID
from ottla.protocol.generated import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from ottla.protocol.message import Request, Response
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
from ottla.raft.log import METADATA_PARTITION
from ottla.raft.voters import KRAFT_VERSION_MAX, ReplicaKey, VoterEndpoint

VOTER_CHANGE_TIMEOUT_MS: Final = 30_000
TOPIC, PARTITION = METADATA_PARTITION


class Sender(NamedTuple):
    """Who asks, and how much it wants at once."""

    cluster_id: str
    key: ReplicaKey
    endpoints: Sequence[VoterEndpoint]
    fetch_bytes_max: int
    snapshot_bytes_max: int
    fetch_wait_ms: int
    """How long the leader may keep a fetch that finds nothing new."""


def to_message(request: RaftRequest, sender: Sender) -> Request[Response]:
    match request:
        case RequestVote():
            return _vote(request, sender)
        case BeginEpoch():
            return _begin_epoch(request, sender)
        case EndEpoch():
            return _end_epoch(request, sender)
        case FetchLog():
            return _fetch(request, sender)
        case FetchSnapshot():
            return _fetch_snapshot(request, sender)
        case UpdateVoter():
            return _update_voter(request, sender)
        case JoinVoters():
            return _join(request, sender)


def _vote(request: RequestVote, sender: Sender) -> Request[Response]:
    partition = vote.VoteRequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=sender.key.node_id,
        replica_directory_id=sender.key.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=sender.cluster_id, voter_id=request.voter.node_id, topics=[topic]
    )


def _begin_epoch(request: BeginEpoch, sender: Sender) -> Request[Response]:
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter.directory_id,
        leader_id=sender.key.node_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopicData(
        topic_name=TOPIC, partitions=[partition]
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        voter_id=request.voter.node_id,
        topics=[topic],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in sender.endpoints
        ],
    )


def _end_epoch(request: EndEpoch, sender: Sender) -> Request[Response]:
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        leader_id=sender.key.node_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.node_id for key in request.preferred],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(
                candidate_id=key.node_id, candidate_directory_id=key.directory_id
            )
            for key in request.preferred
        ],
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopicData(
        topic_name=TOPIC, partitions=[partition]
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        topics=[topic],
        leader_endpoints=[
            end_quorum_epoch.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in sender.endpoints
        ],
    )


def _fetch(request: FetchLog, sender: Sender) -> Request[Response]:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=0,
        replica_directory_id=sender.key.directory_id,
        high_watermark=request.high_watermark,
    )
    topic = fetch.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchRequest(
        cluster_id=sender.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=sender.key.node_id),
        max_wait_ms=sender.fetch_wait_ms,
        max_bytes=sender.fetch_bytes_max,
        session_epoch=-1,
        topics=[topic],
    )


def _fetch_snapshot(request: FetchSnapshot, sender: Sender) -> Request[Response]:
    snapshot_id = fetch_snapshot.FetchSnapshotRequestSnapshotId(
        end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
    )
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot_id,
        position=request.position,
        replica_directory_id=sender.key.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=sender.cluster_id,
        replica_id=sender.key.node_id,
        max_bytes=sender.snapshot_bytes_max,
        topics=[topic],
    )


def _update_voter(request: UpdateVoter, sender: Sender) -> Request[Response]:
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=sender.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=sender.key.node_id,
        voter_directory_id=sender.key.directory_id,
        listeners=[
            update_raft_voter.Listener(name=each.name, host=each.host, port=each.port)
            for each in sender.endpoints
        ],
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def _join(request: JoinVoters, sender: Sender) -> Request[Response]:
    if request.replaced is not None:
        return remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=sender.cluster_id,
            voter_id=request.replaced.node_id,
            voter_directory_id=request.replaced.directory_id,
        )
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=sender.cluster_id,
        timeout_ms=VOTER_CHANGE_TIMEOUT_MS,
        voter_id=sender.key.node_id,
        voter_directory_id=sender.key.directory_id,
        listeners=[
            add_raft_voter.Listener(name=each.name, host=each.host, port=each.port)
            for each in sender.endpoints
        ],
        ack_when_committed=False,
    )
