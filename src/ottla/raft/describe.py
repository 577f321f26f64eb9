"""DescribeQuorum: who leads the metadata log, how far each voter has come."""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import ZERO_UUID
from ottla.protocol.generated import describe_quorum as dq
from ottla.raft.log import METADATA_PARTITION
from ottla.raft.node import RaftNode
from ottla.raft.roles import Leader

_NOT_LEADER: Final = (
    "For requests intended only for the leader, this error indicates that the broker is not the "
    "current leader. For requests intended for any replica, this error indicates that the broker "
    "is not a replica of the topic partition."
)
_UNKNOWN: Final = "This server does not host this topic-partition."


def describe_quorum(
    node: RaftNode, request: dq.DescribeQuorumRequest, now_ms: int
) -> dq.DescribeQuorumResponse:
    """Only the leader knows; the others say who they take for it."""
    response = dq.DescribeQuorumResponse(error_message="")
    for topic in request.topics:
        answer = dq.DescribeQuorumResponseTopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            if (topic.topic_name, wanted.partition_index) == METADATA_PARTITION:
                answer.partitions.append(_described(node, now_ms))
            else:
                answer.partitions.append(
                    dq.DescribeQuorumResponsePartitionData(
                        partition_index=wanted.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=_UNKNOWN,
                    )
                )
    if any(
        partition.error_code == 0 for topic in response.topics for partition in topic.partitions
    ):
        response.nodes = _nodes(node)
    return response


def _described(node: RaftNode, now_ms: int) -> dq.DescribeQuorumResponsePartitionData:
    partition = dq.DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION.partition,
        error_message="",
        leader_id=node.leader_id,
        leader_epoch=node.epoch,
    )
    if not isinstance(node.role, Leader):
        partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.error_message = _NOT_LEADER
        return partition
    partition.high_watermark = -1 if node.high_watermark is None else node.high_watermark
    for voter in node.voters:
        is_leader = voter.key.node_id == node.key.node_id
        partition.current_voters.append(
            dq.ReplicaState(
                replica_id=voter.key.node_id,
                replica_directory_id=voter.key.directory_id or ZERO_UUID,
                log_end_offset=(
                    node.log_end_offset
                    if is_leader
                    else node.role.synced.get(voter.key.node_id, -1)
                ),
                last_fetch_timestamp=now_ms if is_leader else -1,
                last_caught_up_timestamp=now_ms if is_leader else -1,
            )
        )
    return partition


def _nodes(node: RaftNode) -> list[dq.Node]:
    return [
        dq.Node(
            node_id=voter.key.node_id,
            listeners=[
                dq.Listener(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ],
        )
        for voter in node.voters
    ]
