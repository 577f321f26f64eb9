"""DescribeQuorum: who leads the metadata log, how far each voter has come."""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.protocol.generated import describe_quorum as dq
from ottla.raft.log import METADATA_PARTITION
from ottla.raft.node import RaftNode
from ottla.raft.roles import Leader
from ottla.raft.voters import ReplicaKey

_NOT_LEADER: Final = (
    "For requests intended only for the leader, this error indicates that the broker is not the "
    "current leader. For requests intended for any replica, this error indicates that the broker "
    "is not a replica of the topic partition."
)
_UNKNOWN: Final = "This server does not host this topic-partition."


def describe_quorum(
    node: RaftNode, request: dq.DescribeQuorumRequest, now: float, now_ms: int
) -> dq.DescribeQuorumResponse:
    """Only the leader knows; the others say who they take for it."""
    response = dq.DescribeQuorumResponse(error_message="")
    for topic in request.topics:
        answer = dq.DescribeQuorumResponseTopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            if (topic.topic_name, wanted.partition_index) == METADATA_PARTITION:
                answer.partitions.append(_described(node, now, now_ms))
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


def _described(node: RaftNode, now: float, now_ms: int) -> dq.DescribeQuorumResponsePartitionData:
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
    high_watermark = node.role.high_watermark
    partition.high_watermark = -1 if high_watermark is None else high_watermark
    replicas = _Replicas(node, node.role, now, now_ms)
    partition.current_voters = [replicas.describe(key) for key in node.voters.keys]
    observers = node.role.observers(node.voters, now)
    if not node.is_voter:
        observers.append(node.key)
    partition.observers = [replicas.describe(key) for key in observers]
    return partition


class _Replicas:
    """What a leader knows of the others; of itself it knows all."""

    def __init__(self, node: RaftNode, role: Leader, now: float, now_ms: int) -> None:
        self._node = node
        self._role = role
        self._now = now
        self._now_ms = now_ms

    def describe(self, key: ReplicaKey) -> dq.ReplicaState:
        state = dq.ReplicaState(
            replica_id=key.node_id, replica_directory_id=key.directory_id, log_end_offset=-1
        )
        progress = self._role.progress.get(key)
        if key.node_id == self._node.key.node_id:
            state.log_end_offset = self._node.log_end_offset
            state.last_fetch_timestamp = state.last_caught_up_timestamp = self._now_ms
        elif progress is not None:
            state.log_end_offset = progress.end_offset
            state.last_fetch_timestamp = self._wall_ms(progress.fetched_at)
            state.last_caught_up_timestamp = self._wall_ms(progress.caught_up_at)
        return state

    def _wall_ms(self, at: float) -> int:
        return -1 if at < 0 else self._now_ms - int((self._now - at) * 1000)


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
