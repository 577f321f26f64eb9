"""A quorum of three real nodes on virtual time, networks and disks: its lives and its network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.common.promise import run
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.simulation.checkers.metadata import MetadataChecker
from ottla.simulation.cluster import CONTROLLER_PORT, SimulatedCluster
from ottla.simulation.membership import leave_and_join
from ottla.simulation.node import SimulatedNode

SESSION_SECONDS = 6.0
HEARTBEAT_SECONDS = 1.5


def started(seed: int, nodes: int = 3) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, nodes)
    for node in cluster.nodes.values():
        node.start()
    assert cluster.run_until(lambda: leader_of(cluster) is not None, 30)
    cluster.run_for(5)
    return cluster


def leader_of(cluster: SimulatedCluster) -> SimulatedNode | None:
    leaders = [node for node in cluster.running if leads(node)]
    return max(leaders, key=epoch_of) if leaders else None


def leads(node: SimulatedNode) -> bool:
    raft = node.raft
    return raft is not None and raft.is_leader


def epoch_of(node: SimulatedNode) -> int:
    assert node.raft is not None
    return node.raft.epoch


def client(cluster: SimulatedCluster, node: SimulatedNode, timeout: float = 5.0) -> NodeClient:
    return NodeClient(
        cluster.client_network("client"),
        cluster.scheduler,
        node.host.name,
        CONTROLLER_PORT,
        client_id="c",
        limits=NodeClientLimits(timeout_seconds=timeout, backoff_seconds=0.1),
    )


def answered(cluster: SimulatedCluster, asked: NodeClient) -> bool:
    promise = asked.send(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    assert cluster.run_until(lambda: promise.done, 120)
    try:
        return isinstance(promise.result(), ApiVersionsResponse)
    except OSError:
        return False


def test_three_nodes_elect_a_leader_and_another_when_it_is_killed() -> None:
    cluster = started(1)
    first = leader_of(cluster)
    assert first is not None
    epoch = epoch_of(first)
    first.kill()
    assert cluster.run_until(lambda: leader_of(cluster) is not None, 60)
    second = leader_of(cluster)
    assert second is not None
    assert second is not first
    assert epoch_of(second) > epoch


def test_a_leader_that_is_cut_off_is_replaced_and_follows_when_the_cut_is_mended() -> None:
    cluster = started(2)
    first = leader_of(cluster)
    assert first is not None
    others = [node for node in cluster.nodes.values() if node is not first]
    cluster.network.separate([first.host], [node.host for node in others])
    assert cluster.run_until(lambda: any(leads(node) for node in others), 60)
    cluster.network.mend_all()
    second = leader_of(cluster)
    assert second is not None
    assert cluster.run_until(lambda: not leads(first) and epoch_of(first) == epoch_of(second), 60)


def seconds_until_fenced(cluster: SimulatedCluster, victim: SimulatedNode) -> float:
    """From now on, of a node that is killed, if it is not yet."""
    began = cluster.scheduler.now
    if victim in cluster.running:
        victim.kill()
    others = [node for node in cluster.nodes.values() if node is not victim]

    def is_fenced() -> bool:
        return any(node.image.brokers[victim.node_id].fenced for node in others)

    assert cluster.run_until(is_fenced, 60)
    return cluster.scheduler.now - began


@pytest.mark.parametrize("seed", range(5))
def test_the_session_of_a_dead_controller_does_not_begin_with_the_next_one(seed: int) -> None:
    """It has begun with its last answer, and has half of its time left when the next one begins."""
    cluster = started(seed)
    leader = leader_of(cluster)
    assert leader is not None
    cluster.run_for(0.3 * seed)
    began = cluster.scheduler.now
    leader.kill()
    assert cluster.run_until(lambda: leader_of(cluster) is not None, 60)
    election = cluster.scheduler.now - began
    took = election + seconds_until_fenced(cluster, leader)
    assert took <= max(SESSION_SECONDS, election + SESSION_SECONDS / 2) + 0.1


@pytest.mark.parametrize("seed", range(5))
def test_a_session_ends_when_its_time_is_over_and_not_at_the_next_look(seed: int) -> None:
    cluster = started(seed)
    victim = next(node for node in cluster.nodes.values() if node is not leader_of(cluster))
    cluster.run_for(0.3 * seed)
    took = seconds_until_fenced(cluster, victim)
    assert SESSION_SECONDS - HEARTBEAT_SECONDS <= took <= SESSION_SECONDS + 0.1


def test_a_paused_node_does_nothing_and_then_all_that_was_due() -> None:
    cluster = started(3)
    first = leader_of(cluster)
    assert first is not None
    asked = client(cluster, first, timeout=100)
    first.pause()
    promise = asked.send(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    cluster.run_for(30)
    assert not promise.done
    assert leader_of(cluster) is not first
    first.resume()
    assert cluster.run_until(lambda: promise.done, 5)
    assert isinstance(promise.result(), ApiVersionsResponse)
    assert cluster.run_until(lambda: not leads(first), 10)


def test_a_dead_process_refuses_and_a_machine_without_power_is_silent() -> None:
    cluster = started(4)
    first = leader_of(cluster)
    assert first is not None
    asked = client(cluster, first)
    assert answered(cluster, asked)
    first.kill()
    began = cluster.scheduler.now
    cluster.run_for(1)
    assert not answered(cluster, asked)
    assert cluster.scheduler.now - began < 2
    first.start()
    cluster.run_for(20)
    assert answered(cluster, asked)
    first.lose_power()
    began = cluster.scheduler.now
    assert not answered(cluster, asked)
    assert cluster.scheduler.now - began > 4
    first.start()
    assert cluster.run_until(lambda: answered(cluster, asked), 30)


def test_the_metadata_of_a_majority_survives_the_loss_of_all_power() -> None:
    cluster = started(5)
    first = leader_of(cluster)
    assert first is not None
    cluster.run_for(20)
    assert first.raft is not None
    committed = first.raft.high_watermark
    assert committed > 0
    for node in cluster.nodes.values():
        node.lose_power()
    for node in cluster.nodes.values():
        node.start()
    assert cluster.run_until(lambda: leader_of(cluster) is not None, 30)
    second = leader_of(cluster)
    assert second is not None
    assert second.raft is not None
    assert second.raft.high_watermark >= committed or cluster.run_until(
        lambda: second.raft is not None and second.raft.high_watermark > committed, 10
    )


def trace_of(seed: int) -> str:
    cluster = started(seed)
    first = leader_of(cluster)
    assert first is not None
    first.lose_power()
    cluster.run_for(10)
    first.start()
    cluster.run_for(10)
    return cluster.trace.digest


def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from test_cluster import trace_of; print(trace_of(6))"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces != {trace_of(7) + "\n"}


@pytest.mark.parametrize("seed", range(2))
def test_a_controller_that_finds_itself_replaced_while_it_writes_forgets_what_it_wrote(
    seed: int,
) -> None:
    """It stood still, and goes on with a request; the append is where it notices.

    What it has decided is in no other log, and must be in no image.
    """
    cluster = started(seed)
    MetadataChecker(cluster)
    first = leader_of(cluster)
    assert first is not None
    others = [node for node in cluster.nodes.values() if node is not first]
    asked = client(cluster, first, timeout=60)
    assert answered(cluster, asked)
    first.pause()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    asked.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    cluster.network.separate([first.host], [node.host for node in others])
    cluster.run_for(20)
    first.resume()
    cluster.run_for(1)
    cluster.network.mend_all()
    cluster.run_for(20)
    image = first.image
    assert "t" not in image.topics.by_name
    assert all(node.image == image for node in others)


def test_what_the_quorum_itself_writes_moves_the_offset_of_the_leaders_image_too() -> None:
    cluster = SimulatedCluster(1, settings={"metadata.max.idle.interval.ms": "0"})
    cluster.start()
    leader = leader_of(cluster)
    assert leader is not None
    other = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wait_for(run(cluster.scheduler.turn, leave_and_join(cluster, other)), 30)
    cluster.run_for(5)
    assert leader.raft is not None
    assert [node.image.offset + 1 for node in cluster.nodes.values()] == [
        leader.raft.high_watermark
    ] * 3


def upgraded(cluster: SimulatedCluster) -> tuple[int, str | None]:
    """kraft.version to 1, asked of the controller that leads."""
    leader = leader_of(cluster)
    assert leader is not None
    asked = client(cluster, leader)
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    promise = asked.send(UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=[update]))
    assert cluster.run_until(lambda: promise.done, 30)
    asked.close()
    response = promise.result()
    assert isinstance(response, UpdateFeaturesResponse)
    return response.error_code, response.error_message


def test_three_static_voters_become_dynamic_and_one_leaves_and_joins() -> None:
    cluster = SimulatedCluster(9, 3, static_quorum=True)
    cluster.start()
    cluster.run_for(5)
    assert upgraded(cluster) == (0, None)
    cluster.run_for(2)
    for node in cluster.running:
        assert node.raft is not None
        assert node.raft.kraft_version == 1
        assert all(any(key.directory_id) for key in node.raft.voters.keys)
    follower = next(node for node in cluster.running if node is not leader_of(cluster))
    changed = run(cluster.scheduler.turn, leave_and_join(cluster, follower))
    assert cluster.run_until(lambda: changed.done, 60)
    changed.result()
    assert not cluster.violations
    leader = leader_of(cluster)
    assert leader is not None
    assert leader.raft is not None
    assert sorted(leader.raft.voters.ids) == [1, 2, 3]
    cluster.stop()
