"""A cluster of processes for tests: it does to its nodes what it says."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.installed import IMPORT_PATH

from ottla.client.admin import Admin
from ottla.client.errors import BrokerUnavailable
from ottla.testing import Cluster

pytestmark = pytest.mark.timeout(120)
pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config={"num.partitions": "1"}) as started:
        yield started


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.removeprefix("test_")[:100]
    with cluster.admin() as admin:
        admin.create_topics({name: 1})
    cluster.wait_until_in_sync()
    return str(name)


def write(cluster: Cluster, topic: str, value: str, *, seconds: float = 60) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0}
    )
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(seconds) == 0, cluster.report()
    assert failures == [None]


def read(cluster: Cluster, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0}
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=30)
    return [str((message.value() or b"").decode()) for message in found]


def test_three_brokers_start_and_keep_three_copies(cluster: Cluster, topic: str) -> None:
    with cluster.admin() as admin:
        (partition,) = admin.describe_topics([topic])[topic].partitions
    assert sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3]
    write(cluster, topic, "hello")
    assert read(cluster, topic, 1) == ["hello"]
    assert cluster.controller() in {1, 2, 3}
    assert [node.node_id for node in cluster.brokers] == [1, 2, 3]
    assert f"127.0.0.1:{cluster.node(2).port}" in cluster.bootstrap_servers


def test_a_killed_leader_is_replaced_and_nothing_is_lost(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, "before")
    leader = cluster.leader(topic)
    cluster.kill(leader)
    assert not cluster.node(leader).is_running
    write(cluster, topic, "meanwhile")
    assert cluster.leader(topic) != leader
    cluster.start(leader)
    cluster.wait_until_in_sync()
    assert read(cluster, topic, 2) == ["before", "meanwhile"]


def test_a_paused_node_answers_nobody_until_it_is_resumed(cluster: Cluster, topic: str) -> None:
    follower = next(each for each in (1, 2, 3) if each != cluster.leader(topic))
    cluster.pause(follower)
    address = f"127.0.0.1:{cluster.node(follower).port}"
    from ottla.client.cluster import Timing

    timing = Timing(connect_timeout_ms=500, request_timeout_ms=500, call_timeout_ms=500)
    with pytest.raises(BrokerUnavailable), Admin(address, timing=timing) as admin:
        admin.describe_cluster()
    cluster.resume(follower)
    with Admin(address) as admin:
        assert admin.describe_cluster().brokers
    cluster.wait_until_in_sync()


def test_a_node_that_is_cut_off_is_replaced_and_comes_back(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, "before")
    leader = cluster.leader(topic)
    cluster.isolate(leader)
    cluster.wait_until(lambda: cluster.leader(topic) not in {leader, -1}, 60, "another leads")
    cluster.heal()
    cluster.wait_until_in_sync()
    write(cluster, topic, "after")
    assert read(cluster, topic, 2) == ["before", "after"]


def test_a_clock_that_is_wrong_shows_in_what_a_broker_writes(cluster: Cluster) -> None:
    topic = "clocked"
    with cluster.admin() as admin:
        from ottla.client.descriptions import NewTopic

        configs = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic(topic, 1, configs=configs)])
    cluster.wait_until_in_sync()
    leader = cluster.leader(topic)
    hour = 3_600_000
    cluster.skew(leader, hour)
    try:
        write(cluster, topic, "early")
    finally:
        cluster.skew(leader, 0)
    write(cluster, topic, "in time")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        early, in_time = (message.timestamp()[1] for message in consumer.consume(2, timeout=30))
    assert hour - 60_000 < early - in_time <= hour


def test_a_node_stops_cleanly_and_starts_on_its_data(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, "kept")
    leader = cluster.leader(topic)
    cluster.stop(leader)
    assert cluster.node(leader).process.exit_code == 0
    assert list(cluster.node(leader).log_dir.glob(".kafka_cleanshutdown"))
    cluster.start(leader)
    cluster.wait_until_in_sync()
    assert read(cluster, topic, 1) == ["kept"]


def test_controllers_can_be_apart() -> None:
    with Cluster(brokers=1, controllers=1) as cluster:
        assert [node.node_id for node in cluster.nodes] == [1, 101]
        assert cluster.controller() == 101
        with cluster.admin() as admin:
            admin.create_topics({"t": 1})
        write(cluster, "t", "hello")
        assert read(cluster, "t", 1) == ["hello"]


SCRIPT = """
import sys, time
from ottla.testing import Cluster
cluster = Cluster(2)
cluster.start_all()
cluster.pause(2)
print(*(node.process.pid for node in cluster.nodes), cluster.directory, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_nodes_end_with_their_parent_however_it_ends(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    with parent.stdout:
        words = parent.stdout.readline().split()
        pids = [int(word) for word in words[:2]]
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 60
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def is_alive(pid: int) -> bool:
    """Whether a process does anything still; one that nobody has waited for is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_the_report_of_a_failed_test_has_what_the_nodes_wrote(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ottla(brokers=1, controllers=1)
        def test_it(ottla_cluster):
            assert ottla_cluster.bootstrap_servers == "elsewhere"
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*what the nodes wrote*", "--- node 1 (runs)*", "--- node 101*"])
