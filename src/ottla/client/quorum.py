"""The quorum of the controllers: who is in it, how far each is, and who joins or leaves."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.connection import Address
from ottla.client.errors import check, refusal
from ottla.common.errors import ApiError
from ottla.common.identifiers import METADATA_TOPIC
from ottla.protocol.generated.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from ottla.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


class QuorumReplica(NamedTuple):
    """A copy of the metadata log; times are -1 when the leader does not know them."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumEndpoint(NamedTuple):
    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    endpoints: dict[int, list[QuorumEndpoint]]

    @property
    def leader(self) -> QuorumReplica | None:
        return next((each for each in self.voters if each.node_id == self.leader_id), None)

    def lag(self, replica: QuorumReplica) -> int:
        """How many records it is behind the leader; -1 when that is not known."""
        leader = self.leader
        if leader is None or replica.log_end_offset < 0:
            return -1
        return leader.log_end_offset - replica.log_end_offset

    def lag_ms(self, replica: QuorumReplica) -> int:
        """How long ago it had all that the leader has; -1 when that is not known."""
        leader = self.leader
        if replica.node_id == self.leader_id:
            return 0
        if leader is None or replica.last_caught_up_ms <= 0 or leader.last_caught_up_ms <= 0:
            return -1
        return leader.last_caught_up_ms - replica.last_caught_up_ms


def describe_quorum(cluster: Cluster) -> QuorumDescription:
    """The voters and observers as the active controller sees them."""
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=METADATA_TOPIC,
                partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
            )
        ]
    )
    cluster.refresh()
    response = cluster.ask_again(
        request, DescribeQuorumResponse, node_id=cluster.controller, failed=_quorum_refusal
    )
    partition = response.topics[0].partitions[0]
    return QuorumDescription(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        [_replica(each) for each in partition.current_voters],
        [_replica(each) for each in partition.observers],
        {
            node.node_id: [
                QuorumEndpoint(each.name, Address(each.host, each.port)) for each in node.listeners
            ]
            for node in response.nodes
        },
    )


def _quorum_refusal(answer: DescribeQuorumResponse) -> ApiError | None:
    if answer.error_code:
        return refusal(answer.error_code, answer.error_message)
    if not answer.topics or not answer.topics[0].partitions:
        return refusal(-1, "the broker tells nothing of the quorum")
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        return refusal(partition.error_code, partition.error_message)
    return None


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def add_voter(
    cluster: Cluster, node_id: int, directory_id: bytes, endpoints: Sequence[QuorumEndpoint]
) -> None:
    """Make an observer a voter; it must be reachable at its endpoints."""
    cluster.refresh()
    request = AddRaftVoterRequest(
        cluster_id=cluster.metadata.cluster_id,
        timeout_ms=cluster.timing.request_timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[
            Listener(name=each.name, host=each.address.host, port=each.address.port)
            for each in endpoints
        ],
    )
    # Asked once: what came of an answer that was lost, the quorum's description tells.
    answer = cluster.ask(cluster.controller(), request, AddRaftVoterResponse, cluster.deadline())
    check(answer.error_code, answer.error_message)


def remove_voter(cluster: Cluster, node_id: int, directory_id: bytes) -> None:
    """Make a voter an observer, or part with one that is gone for good."""
    cluster.refresh()
    request = RemoveRaftVoterRequest(
        cluster_id=cluster.metadata.cluster_id,
        voter_id=node_id,
        voter_directory_id=directory_id,
    )
    answer = cluster.ask(cluster.controller(), request, RemoveRaftVoterResponse, cluster.deadline())
    check(answer.error_code, answer.error_message)
