"""The answers of a node of the quorum to the requests of others, as Kafka's messages.

From some version on an answer names the leader's address too, at the listener that was asked.
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.identifiers import METADATA_TOPIC_ID
from ottla.protocol.generated import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    update_raft_voter,
    vote,
)
from ottla.raft.divergence import Agreement
from ottla.raft.effects import AnswerEpoch, AnswerVote
from ottla.raft.requests import PARTITION, TOPIC
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import LeaderInfo, VoterEndpoint

VOTE_ENDPOINTS_FROM: Final = 1
EPOCH_ENDPOINTS_FROM: Final = 1
FETCH_ENDPOINTS_FROM: Final = 17
FETCH_LEADER_FROM: Final = 12
FETCH_TOPIC_IDS_FROM: Final = 13
FETCH_SNAPSHOT_ENDPOINTS_FROM: Final = 1


def endpoint_of(endpoints: Iterable[VoterEndpoint], listener_name: str) -> VoterEndpoint | None:
    """The one with that name, or else any."""
    first = None
    for each in endpoints:
        if each.name == listener_name:
            return each
        if first is None:
            first = each
    return first


class Asker:
    """Who asks: in which version, at which listener."""

    __slots__ = ("listener_name", "version")

    def __init__(self, version: int, listener_name: str) -> None:
        self.version = version
        self.listener_name = listener_name

    def endpoint(self, leader: LeaderInfo, endpoints_from: int) -> VoterEndpoint | None:
        if leader.leader_id < 0 or self.version < endpoints_from:
            return None
        return endpoint_of(leader.endpoints, self.listener_name)


def vote_response(answer: AnswerVote, leader: LeaderInfo, asker: Asker) -> vote.VoteResponse:
    partition = vote.VoteResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    response = vote.VoteResponse(
        topics=[vote.VoteResponseTopicData(topic_name=TOPIC, partitions=[partition])]
    )
    endpoint = asker.endpoint(leader, VOTE_ENDPOINTS_FROM)
    if endpoint is not None:
        response.node_endpoints = [
            vote.NodeEndpoint(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port)
        ]
    return response


def begin_response(
    answer: AnswerEpoch, leader: LeaderInfo, asker: Asker
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(
        topic_name=TOPIC, partitions=[partition]
    )
    response = begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic])
    endpoint = asker.endpoint(leader, EPOCH_ENDPOINTS_FROM)
    if endpoint is not None:
        response.node_endpoints = [
            begin_quorum_epoch.NodeEndpoint(
                node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
            )
        ]
    return response


def end_response(
    answer: AnswerEpoch, leader: LeaderInfo, asker: Asker
) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(
        topic_name=TOPIC, partitions=[partition]
    )
    response = end_quorum_epoch.EndQuorumEpochResponse(topics=[topic])
    endpoint = asker.endpoint(leader, EPOCH_ENDPOINTS_FROM)
    if endpoint is not None:
        response.node_endpoints = [
            end_quorum_epoch.NodeEndpoint(
                node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
            )
        ]
    return response


def fetch_response(
    leader: LeaderInfo,
    asker: Asker,
    *,
    error: int = 0,
    agreement: Agreement | None = None,
    records: bytes = b"",
    high_watermark: int = -1,
    log_start_offset: int = -1,
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=records,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch)
        if asker.version >= FETCH_LEADER_FROM
        else None,
    )
    if agreement is not None and agreement.diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(
            epoch=agreement.diverging.epoch, end_offset=agreement.diverging.offset
        )
    if agreement is not None and agreement.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            epoch=agreement.snapshot_id.epoch, end_offset=agreement.snapshot_id.end_offset
        )
    topic = fetch.FetchableTopicResponse(partitions=[partition])
    if asker.version < FETCH_TOPIC_IDS_FROM:
        topic.topic = TOPIC
    else:
        topic.topic_id = METADATA_TOPIC_ID
    response = fetch.FetchResponse(responses=[topic])
    endpoint = asker.endpoint(leader, FETCH_ENDPOINTS_FROM)
    if endpoint is not None:
        response.node_endpoints = [
            fetch.NodeEndpoint(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port)
        ]
    return response


def snapshot_response(
    leader: LeaderInfo,
    asker: Asker,
    *,
    error: int = 0,
    snapshot_id: SnapshotId | None = None,
    size: int = 0,
    position: int = 0,
    data: bytes = b"",
    topic_name: str = TOPIC,
    partition_index: int = PARTITION,
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=partition_index,
        error_code=error,
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
        size=size,
        position=position,
        unaligned_records=data,
    )
    if snapshot_id is not None:
        partition.snapshot_id = fetch_snapshot.FetchSnapshotResponseSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(
        name=topic_name, partitions=[partition]
    )
    response = fetch_snapshot.FetchSnapshotResponse(topics=[topic])
    endpoint = asker.endpoint(leader, FETCH_SNAPSHOT_ENDPOINTS_FROM)
    if endpoint is not None:
        response.node_endpoints = [
            fetch_snapshot.NodeEndpoint(
                node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
            )
        ]
    return response


def update_voter_response(
    error: int, leader: LeaderInfo, listener_name: str
) -> update_raft_voter.UpdateRaftVoterResponse:
    response = update_raft_voter.UpdateRaftVoterResponse(error_code=error)
    current = update_raft_voter.CurrentLeader(leader_id=leader.leader_id, leader_epoch=leader.epoch)
    endpoint = endpoint_of(leader.endpoints, listener_name) if leader.leader_id >= 0 else None
    if endpoint is not None:
        current.host, current.port = endpoint.host, endpoint.port
    response.current_leader = current
    return response
