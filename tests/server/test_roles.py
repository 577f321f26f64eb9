"""Brokers, controllers and nodes that are both, while the active controller is elsewhere."""

import errno
from typing import TypeVar

import pytest

from ottla.common.errors import ErrorCode
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
)
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
)
from ottla.protocol.message import Request, Response
from ottla.simulation.cluster import CONTROLLER_PORT, PORT, Roles, SimulatedCluster
from ottla.simulation.node import SimulatedNode

R = TypeVar("R", bound=Response)


def started(seed: int, roles: Roles = "combined", **settings: str) -> SimulatedCluster:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = SimulatedCluster(seed, 3, names, roles)
    cluster.start()
    return cluster


def ask(
    cluster: SimulatedCluster,
    node: SimulatedNode,
    message: Request[R],
    port: int = PORT,
) -> R:
    client = NodeClient(
        cluster.client_network("client"),
        cluster.scheduler,
        node.host.name,
        port,
        client_id="c",
        limits=NodeClientLimits(timeout_seconds=40.0, backoff_seconds=0.1),
    )
    promise = client.send(message)
    assert cluster.run_until(lambda: promise.done, 60)
    answer = promise.result()
    client.close()
    return answer


def create(cluster: SimulatedCluster, node: SimulatedNode, name: str, replicas: int = 1) -> int:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=replicas)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    (created,) = ask(cluster, node, request).topics
    return created.error_code


def leader(cluster: SimulatedCluster) -> SimulatedNode:
    assert cluster.run_until(lambda: cluster.raft_leader() is not None, 30)
    found = cluster.raft_leader()
    assert found is not None
    return found


@pytest.mark.parametrize("roles", ["combined", "separate"])
def test_topics_are_created_and_deleted_through_every_broker(roles: Roles) -> None:
    cluster = started(1, roles)
    for broker in cluster.brokers:
        assert create(cluster, broker, f"by-{broker.node_id}") == ErrorCode.NONE
        assert create(cluster, broker, f"by-{broker.node_id}") == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.run_for(2)
    names = {f"by-{broker.node_id}" for broker in cluster.brokers}
    assert all(names <= set(node.image.topics.by_name) for node in cluster.running)
    for broker in cluster.brokers:
        topic = DeleteTopicState(name=f"by-{broker.node_id}")
        request = DeleteTopicsRequest(topics=[topic], timeout_ms=5_000)
        (deleted,) = ask(cluster, broker, request).responses
        assert deleted.error_code == ErrorCode.NONE
    cluster.run_for(2)
    assert all(not names & set(node.image.topics.by_name) for node in cluster.running)


@pytest.mark.parametrize("roles", ["combined", "separate"])
def test_every_broker_tells_the_same_of_the_cluster(roles: Roles) -> None:
    cluster = started(2, roles)
    assert create(cluster, cluster.brokers[0], "t", replicas=3) == ErrorCode.NONE
    cluster.run_for(5)
    seen = []
    for broker in cluster.brokers:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answer = ask(cluster, broker, request)
        assert [each.node_id for each in answer.brokers] == [b.node_id for b in cluster.brokers]
        assert answer.controller_id in [each.node_id for each in answer.brokers]
        seen.append([(p.partition_index, p.leader_id) for p in answer.topics[0].partitions])
    assert seen[0] == seen[1] == seen[2]
    assert all(leader_id >= 0 for _, leader_id in seen[0])


@pytest.mark.parametrize("roles", ["combined", "separate"])
def test_another_controller_takes_over_and_serves_every_broker(roles: Roles) -> None:
    cluster = started(3, roles)
    first = leader(cluster)
    first.kill()
    assert cluster.run_until(lambda: cluster.raft_leader() not in (None, first), 30)
    for broker in cluster.brokers:
        if broker.is_running:
            assert create(cluster, broker, f"after-{broker.node_id}") == ErrorCode.NONE
    first.start()
    assert cluster.run_until(lambda: first.has_served, 60)
    cluster.run_for(12)
    image = cluster.newest_image()
    assert all(not image.brokers[broker.node_id].fenced for broker in cluster.brokers)


def test_a_request_that_is_under_way_when_the_controller_dies_is_answered_by_the_next() -> None:
    cluster = started(4, "separate")
    first = leader(cluster)
    client = NodeClient(
        cluster.client_network("client"),
        cluster.scheduler,
        cluster.brokers[0].host.name,
        PORT,
        client_id="c",
        limits=NodeClientLimits(timeout_seconds=60.0, backoff_seconds=0.1),
    )
    first.pause()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    promise = client.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    cluster.run_for(0.5)
    assert not promise.done
    assert cluster.run_until(lambda: promise.done, 20)
    answer = promise.result()
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert leader(cluster) is not first


@pytest.mark.parametrize("seed", [12, 13, 14])
def test_a_request_that_waits_at_the_next_controller_is_answered_there(seed: int) -> None:
    cluster = started(seed)
    first = leader(cluster)
    first.kill()
    promises = []
    for broker in [node for node in cluster.brokers if node.is_running]:
        client = NodeClient(
            cluster.client_network(f"client {broker.node_id}"),
            cluster.scheduler,
            broker.host.name,
            PORT,
            client_id="c",
            limits=NodeClientLimits(timeout_seconds=60.0, backoff_seconds=0.1),
        )
        topic = CreatableTopic(name=f"t{broker.node_id}", num_partitions=1, replication_factor=1)
        promises.append(client.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)))
    cluster.run_for(0.1)
    assert cluster.run_until(lambda: all(each.done for each in promises), 10)
    for each in promises:
        answer = each.result()
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("roles", ["combined", "separate"])
def test_settings_are_changed_through_every_broker_and_directories_cordoned(roles: Roles) -> None:
    cluster = started(5, roles)
    assert create(cluster, cluster.brokers[0], "t") == ErrorCode.NONE
    for number, broker in enumerate(cluster.brokers):
        configs = [AlterableConfig(name="retention.ms", config_operation=0, value=f"{number}000")]
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
        own = AlterConfigsResource(
            resource_type=4,
            resource_name=str(broker.node_id),
            configs=[AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="*")],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource, own])
        answer = ask(cluster, broker, request)
        assert [each.error_code for each in answer.responses] == [0, 0], answer
        cluster.run_for(2)
        image = cluster.newest_image()
        assert image.configs_of(2, "t") == {"retention.ms": f"{number}000"}
        assert image.brokers[broker.node_id].cordoned_log_dirs


@pytest.mark.parametrize("roles", ["combined", "separate"])
def test_every_controller_registers_and_tells_of_all(roles: Roles) -> None:
    cluster = started(6, roles)
    cluster.run_for(3)
    active = leader(cluster).node_id
    for controller in cluster.controllers:
        answer = ask(
            cluster,
            controller,
            DescribeClusterRequest(endpoint_type=2),
            CONTROLLER_PORT,
        )
        assert answer.controller_id == active
        found = {each.broker_id: (each.host, each.port) for each in answer.brokers}
        assert found == {
            each.node_id: (each.host.name, CONTROLLER_PORT) for each in cluster.controllers
        }


def test_a_broker_that_stops_gives_its_partitions_away_first() -> None:
    cluster = started(7, "separate")
    for number in range(6):
        assert create(cluster, cluster.brokers[0], f"t{number}", replicas=3) == ErrorCode.NONE
    assert cluster.run_until(cluster.is_in_sync, 30)
    broker = cluster.brokers[0]
    stopped = broker.stop()
    assert cluster.run_until(lambda: stopped.done, 30)
    stopped.result()
    image = cluster.newest_image()
    assert image.brokers[broker.node_id].fenced
    partitions = [p for topic in image.topics for p in topic.partitions.values()]
    assert partitions
    assert all(partition.leader not in (-1, broker.node_id) for partition in partitions)


def test_a_broker_stops_although_no_controller_is_left() -> None:
    cluster = started(8, "separate")
    for controller in cluster.controllers:
        controller.kill()
    stopped = cluster.brokers[0].stop()
    assert cluster.run_until(lambda: stopped.done, 30)
    stopped.result()


def test_a_broker_waits_for_the_session_of_its_former_life() -> None:
    cluster = started(9, "separate")
    broker = cluster.brokers[0]
    first = broker.image.brokers[broker.node_id].epoch
    broker.kill()
    begun = cluster.scheduler.now
    broker.start()
    assert cluster.run_until(lambda: broker.has_served, 30)
    assert cluster.scheduler.now - begun > 5
    assert broker.image.brokers[broker.node_id].epoch > first


def test_a_broker_that_was_away_forgets_topics_that_went_while_it_reads_a_snapshot() -> None:
    cluster = started(
        10,
        "separate",
        metadata_log_max_record_bytes_between_snapshots="200",
        metadata_max_retention_bytes="2000",
        internal_metadata_log_segment_bytes="500",
    )
    broker = cluster.brokers[0]
    assert create(cluster, broker, "gone", replicas=3) == ErrorCode.NONE
    cluster.run_for(3)
    assert "gone" in broker.image.topics.by_name
    broker.pause()
    topic = DeleteTopicState(name="gone")
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=5_000)
    ask(cluster, cluster.brokers[1], request)
    for number in range(20):
        create(cluster, cluster.brokers[1], f"t{number}")
    cluster.run_for(5)
    active = leader(cluster).raft
    assert active is not None
    assert active.log.start_offset > broker.image.offset, "the leader still has what it needs"
    broker.resume()
    cluster.run_for(15)
    assert "gone" not in broker.image.topics.by_name
    assert all(partition.topic != "gone" for partition in broker.partitions())


@pytest.mark.parametrize("which", ["controllers", "brokers"])
def test_a_node_that_cannot_save_its_vote_ends(which: str) -> None:
    cluster = started(11, "separate", controller_quorum_fetch_timeout_ms="2000")
    victim = (cluster.controllers if which == "controllers" else cluster.brokers)[0]
    victim.files.fail = lambda _what, path: (
        OSError(errno.EIO, "broken") if "quorum-state" in path else None
    )
    first = leader(cluster)
    if first is not victim:
        first.kill()
    else:
        for other in cluster.controllers:
            if other is not victim:
                other.kill()
        cluster.run_for(5)
        for other in cluster.controllers:
            if other is not victim:
                other.start()
    assert cluster.run_until(lambda: not victim.is_running, 60)
    assert isinstance(victim.failure, OSError)
