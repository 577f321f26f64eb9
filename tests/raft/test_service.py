"""What a node answers to the requests of others: Kafka's checks and errors, in all versions."""

import errno

import pytest
from tests.raft.cluster import CLUSTER_ID, Cluster, Node, key_of

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import METADATA_TOPIC_ID
from ottla.protocol.generated.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    BeginQuorumEpochResponse,
)
from ottla.protocol.generated.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    EndQuorumEpochResponse,
)
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from ottla.protocol.generated.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
)
from ottla.protocol.generated.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.protocol.generated.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
)
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT
from ottla.records.batch import batches, read_header

TOPIC = "__cluster_metadata"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(1, 3, observers=1)
    leader = cluster.elect()
    for _ in range(5):
        cluster.append()
        cluster.run_for(0.2)
    leader.take_snapshot()
    cluster.run_for(1.0)
    return cluster


def leader_of(cluster: Cluster) -> Node:
    assert cluster.leader is not None
    return cluster.leader


def follower_of(cluster: Cluster) -> Node:
    return next(cluster.nodes[n] for n in (1, 2, 3) if cluster.nodes[n] is not cluster.leader)


def ask(cluster: Cluster, node: Node, request: Message, version: int) -> Message:
    """Ask in bytes, answer in bytes."""
    decoded = from_bytes(type(request), to_bytes(request, version), version)
    answer = node.answer(decoded, version)
    assert cluster.run_until(lambda: answer.done, 10)
    response = answer.result()
    return from_bytes(type(response), to_bytes(response, version), version)


# Elections


def vote_request(node: Node, version: int, **changes: object) -> VoteRequest:
    partition = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=node.driver.epoch,
        replica_id=9,
        last_offset_epoch=0,
        last_offset=0,
    )
    if version >= 1:
        partition.voter_directory_id = key_of(node.node_id).directory_id
    topic = VoteRequestTopicData(topic_name=TOPIC, partitions=[partition])
    request = VoteRequest(cluster_id=CLUSTER_ID, topics=[topic])
    if version >= 1:
        request.voter_id = node.node_id
    for name, value in changes.items():
        setattr(partition if hasattr(partition, name) else request, name, value)
    return request


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_vote_of_any_version_is_answered_with_the_leader(cluster: Cluster, version: int) -> None:
    node = follower_of(cluster)
    response = ask(cluster, node, vote_request(node, version), version)
    assert isinstance(response, VoteResponse)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.vote_granted) == (0, False)
    assert partition.leader_id == leader_of(cluster).node_id
    assert len(response.node_endpoints) == (version >= 1)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"replica_epoch": 0, "pre_vote": True}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"last_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": 99}, ErrorCode.INVALID_REQUEST),
        ({"replica_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 77}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_directory_id": bytes(15) + b"x"}, ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_a_vote_is_refused(cluster: Cluster, changes: dict[str, object], error: ErrorCode) -> None:
    node = follower_of(cluster)
    response = ask(cluster, node, vote_request(node, 2, **changes), 2)
    assert isinstance(response, VoteResponse)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.vote_granted) == (error, False)


def test_another_cluster_is_refused_by_all(cluster: Cluster) -> None:
    node = leader_of(cluster)
    requests: list[tuple[Message, int]] = [
        (vote_request(node, 2, cluster_id="another"), 2),
        (BeginQuorumEpochRequest(cluster_id="another"), 1),
        (EndQuorumEpochRequest(cluster_id="another"), 1),
        (fetch_request(node, 18, cluster_id="another"), 18),
        (FetchSnapshotRequest(cluster_id="another"), 1),
        (UpdateRaftVoterRequest(cluster_id="another"), 0),
    ]
    for request, version in requests:
        response = ask(cluster, node, request, version)
        code = response.error_code  # type: ignore[attr-defined]
        assert code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_another_partition_is_refused(cluster: Cluster) -> None:
    node = leader_of(cluster)
    request = vote_request(node, 2)
    request.topics[0].topic_name = "orders"
    response = ask(cluster, node, request, 2)
    assert isinstance(response, VoteResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_the_beginning_of_an_older_epoch_is_refused(cluster: Cluster, version: int) -> None:
    node = follower_of(cluster)
    partition = BeginQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=0)
    topic = BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])
    request = BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=[topic])
    response = ask(cluster, node, request, version)
    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    partition.leader_epoch, partition.leader_id = node.driver.epoch, -1
    response = ask(cluster, node, request, version)
    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_the_end_of_an_older_epoch_is_refused(cluster: Cluster, version: int) -> None:
    node = follower_of(cluster)
    partition = EndQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=0)
    topic = EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])
    request = EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=[topic])
    response = ask(cluster, node, request, version)
    assert isinstance(response, EndQuorumEpochResponse)
    answered = response.topics[0].partitions[0]
    assert answered.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answered.leader_epoch == node.driver.epoch


# Fetching


def fetch_request(node: Node, version: int, **changes: object) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=node.driver.epoch,
        fetch_offset=node.driver.end_offset,
    )
    if version >= 12:
        partition.last_fetched_epoch = node.driver.epoch
    topic = FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    request = FetchRequest(cluster_id=CLUSTER_ID, max_wait_ms=0, topics=[topic])
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=8)
    else:
        request.replica_id = 8
    for name, value in changes.items():
        setattr(partition if hasattr(partition, name) else request, name, value)
    return request


@pytest.mark.parametrize("version", range(12, 19))
def test_a_fetch_of_any_version_brings_the_log(cluster: Cluster, version: int) -> None:
    leader = leader_of(cluster)
    snapshot = leader.driver.snapshots.latest()
    assert snapshot is not None
    leader.append(b"more")
    start = snapshot.end_offset
    request = fetch_request(leader, version, fetch_offset=start, last_fetched_epoch=snapshot.epoch)
    response = ask(cluster, leader, request, version)
    assert isinstance(response, FetchResponse)
    assert len(response.node_endpoints) == (version >= 17)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    assert partition.current_leader.leader_id == leader.node_id
    records = bytes(partition.records or b"")
    found = [read_header(records, at).base_offset for at, _ in batches(records)]
    assert found[0] == start
    assert partition.high_watermark >= start


@pytest.mark.parametrize("version", range(4, 12))
def test_a_fetch_that_cannot_say_its_epoch_is_refused(cluster: Cluster, version: int) -> None:
    leader = leader_of(cluster)
    response = ask(cluster, leader, fetch_request(leader, version), version)
    assert isinstance(response, FetchResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"current_leader_epoch": 0, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 99}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_fetch_is_refused(cluster: Cluster, changes: dict[str, object], error: ErrorCode) -> None:
    leader = leader_of(cluster)
    response = ask(cluster, leader, fetch_request(leader, 18, **changes), 18)
    assert isinstance(response, FetchResponse)
    assert response.responses[0].partitions[0].error_code == error


def test_who_does_not_lead_says_who_does(cluster: Cluster) -> None:
    node = follower_of(cluster)
    response = ask(cluster, node, fetch_request(node, 18), 18)
    assert isinstance(response, FetchResponse)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == leader_of(cluster).node_id
    assert [each.node_id for each in response.node_endpoints] == [leader_of(cluster).node_id]


def test_a_log_that_departs_is_told_where(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    request = fetch_request(leader, 18, fetch_offset=leader.driver.end_offset + 5)
    response = ask(cluster, leader, request, 18)
    assert isinstance(response, FetchResponse)
    diverging = response.responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (
        leader.driver.epoch,
        leader.driver.end_offset,
    )


def test_an_empty_log_is_sent_to_the_latest_snapshot(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    request = fetch_request(leader, 18, fetch_offset=0, last_fetched_epoch=0)
    response = ask(cluster, leader, request, 18)
    assert isinstance(response, FetchResponse)
    found = response.responses[0].partitions[0].snapshot_id
    assert (found.end_offset, found.epoch) == leader.driver.snapshots.latest()


def test_a_fetch_waits_for_something_new(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    cluster.run_for(1.0)
    known = leader.driver.high_watermark
    request = fetch_request(leader, 18, max_wait_ms=500, high_watermark=known)
    answer = leader.answer(request, 18)
    assert not answer.done
    cluster.run_for(0.1)
    assert not answer.done
    leader.append(b"new")
    answer.result()
    waiting = fetch_request(leader, 18, max_wait_ms=500, high_watermark=known)
    answer = leader.answer(waiting, 18)
    began = cluster.scheduler.now
    assert cluster.run_until(lambda: answer.done, 2)
    assert cluster.scheduler.now - began < 0.4, "the high watermark has moved"


# Snapshots


def snapshot_request(node: Node, **changes: int) -> FetchSnapshotRequest:
    latest = node.driver.snapshots.latest() or BOOTSTRAP_SNAPSHOT
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=changes.get("partition", 0),
        current_leader_epoch=changes.get("epoch", node.driver.epoch),
        snapshot_id=FetchSnapshotRequestSnapshotId(
            end_offset=changes.get("end_offset", latest.end_offset), epoch=latest.epoch
        ),
        position=changes.get("position", 0),
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=CLUSTER_ID, replica_id=8, topics=[topic])


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_is_served_in_parts(cluster: Cluster, version: int) -> None:
    leader = leader_of(cluster)
    latest = leader.driver.snapshots.latest()
    assert latest is not None
    size = leader.driver.snapshots.size(latest)
    found = b""
    while len(found) < size:
        request = snapshot_request(leader, position=len(found))
        response = ask(cluster, leader, request, version)
        assert isinstance(response, FetchSnapshotResponse)
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.size) == (0, size)
        assert partition.position == len(found)
        assert 0 < len(partition.unaligned_records) <= 100
        found += bytes(partition.unaligned_records)
    assert found == leader.driver.snapshots.read_chunk(latest, 0, size)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"end_offset": 1_000}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 1 << 40}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_part_of_a_snapshot_is_refused(
    cluster: Cluster, changes: dict[str, int], error: ErrorCode
) -> None:
    leader = leader_of(cluster)
    response = ask(cluster, leader, snapshot_request(leader, **changes), 1)
    assert isinstance(response, FetchSnapshotResponse)
    assert response.topics[0].partitions[0].error_code == error


# Voters


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter_directory_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 99}, ErrorCode.VOTER_NOT_FOUND),
        (
            {"k_raft_version_feature": KRaftVersionFeature(max_supported_version=0)},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_an_update_of_a_voter_is_refused(
    cluster: Cluster, changes: dict[str, object], error: ErrorCode
) -> None:
    cluster.run_for(1.0)
    leader = leader_of(cluster)
    node_id = follower_of(cluster).node_id
    request = UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=leader.driver.epoch,
        voter_id=node_id,
        voter_directory_id=key_of(node_id).directory_id,
        listeners=[Listener(name="CONTROLLER", host="h", port=1)],
        k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )
    for name, value in changes.items():
        setattr(request, name, value)
    response = ask(cluster, leader, request, 0)
    assert isinstance(response, UpdateRaftVoterResponse)
    assert response.error_code == error
    assert response.current_leader.leader_id == leader.node_id


# A disk that cannot be read


def led_cluster() -> tuple[Cluster, Node]:
    """One of its own, since its leader does not outlive the test."""
    cluster = Cluster(1, 3)
    leader = cluster.elect()
    cluster.append()
    cluster.run_for(1.0)
    leader.take_snapshot()
    cluster.run_for(1.0)
    return cluster, leader


def read_fails(cluster: Cluster, node: Node, ending: str) -> None:
    node.may_fail = True
    cluster.disks[node.node_id].fail = lambda what, path: (
        OSError(errno.EIO, "broken") if what == "read" and path.endswith(ending) else None
    )


def test_a_read_that_fails_for_a_replica_ends_the_leader_and_not_the_append() -> None:
    cluster, leader = led_cluster()
    request = fetch_request(leader, 18, max_wait_ms=500)
    answer = leader.answer(request, 18)
    assert not answer.done
    read_fails(cluster, leader, ".log")
    leader.append(b"what the replica waits for")
    assert leader.driver.is_leader, "nothing changes under the caller of append"
    response = answer.result()
    assert isinstance(response, FetchResponse)
    error = response.responses[0].partitions[0].error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.run_until(lambda: leader.driver.is_down, 1)


def test_a_snapshot_that_cannot_be_read_ends_the_leader() -> None:
    cluster, leader = led_cluster()
    read_fails(cluster, leader, ".checkpoint")
    response = ask(cluster, leader, snapshot_request(leader), 1)
    assert isinstance(response, FetchSnapshotResponse)
    error = response.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.run_until(lambda: leader.driver.is_down, 1)
