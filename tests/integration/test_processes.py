"""Clusters of our processes, of combined nodes and of separate ones, through the end of some."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from tests.integration.admin import admin_client
from tests.integration.processes import COMBINED, SEPARATE, Processes
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(params=[COMBINED, SEPARATE], ids=["combined", "separate"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Processes]:
    cluster = Processes(tmp_path, request.param)
    yield cluster
    cluster.close()


def create(cluster: Processes, broker_id: int, name: str) -> None:
    admin = admin_client(cluster.bootstrap_server(broker_id))
    admin.create_topics([NewTopic(name, 1, 1)], request_timeout=60)[name].result()


def topics(cluster: Processes, broker_id: int) -> set[str]:
    return set(admin_client(cluster.bootstrap_server(broker_id)).list_topics(timeout=20).topics)


def has_topics(cluster: Processes, broker_id: int, names: set[str]) -> bool:
    return names <= topics(cluster, broker_id)


def test_another_controller_takes_over_and_every_broker_finds_it(cluster: Processes) -> None:
    cluster.start()
    made = set()
    for broker_id in cluster.brokers:
        create(cluster, broker_id, f"by-{broker_id}")
        made.add(f"by-{broker_id}")
    first = cluster.active_controller()
    cluster.kill(first)
    alive = [broker_id for broker_id in cluster.brokers if broker_id in cluster.running]
    for broker_id in alive:
        create(cluster, broker_id, f"after-{broker_id}")
        made.add(f"after-{broker_id}")
    assert cluster.active_controller() != first
    cluster.start(first)
    for broker_id in cluster.brokers:
        eventually(partial(has_topics, cluster, broker_id, made), "all topics")


def test_nodes_stop_when_they_are_asked_to_and_come_back(cluster: Processes) -> None:
    cluster.start()
    create(cluster, cluster.brokers[0], "t")
    for node_id in cluster.roles:
        assert cluster.stop(node_id) == 0
        cluster.start(node_id)
    eventually(lambda: "t" in topics(cluster, cluster.brokers[0]), "the topic")


def test_a_node_that_waits_for_a_quorum_can_be_stopped(tmp_path: Path) -> None:
    cluster = Processes(tmp_path, COMBINED)
    try:
        with pytest.raises(AssertionError, match="do not serve"):
            cluster.start(1, seconds=3.0)
        assert cluster.stop(1) == 0
    finally:
        cluster.close()
