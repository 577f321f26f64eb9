"""The same acts upon three nodes of ours and upon three of Apache Kafka's, by Apache's tools.

What `kafka-topics --describe` tells after each act is written down once, and must be true of both:
leaders, ISRs, eligible leader replicas and the last known ones, through a stop, a move, an election
and the forgetting of a broker.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.waiting import eventually
from tools.kafka_peer.broker_process import apache_kafka, ottla
from tools.kafka_peer.cluster_process import ClusterProcess, running
from tools.kafka_peer.peer import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(900)]

_LINE = re.compile(
    r"Topic: (\S+)\tPartition: 0\tLeader: (\S+)\tReplicas: (\S+)"
    r"\tIsr: (\S*)\tElr: ?(\S*)\tLastKnownElr: ?(\S*)"
)
Row = tuple[str, str, str, str, str]
"""Leader, replicas, ISR, ELR, last known ELR; the sets in order."""


@pytest.fixture(params=["ottla", "apache"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterProcess]:
    program = ottla() if request.param == "ottla" else apache_kafka(heap=("-Xmx256M", "-Xms256M"))
    settings = {"auto.leader.rebalance.enable": "false"}
    with running(ClusterProcess(program, tmp_path, settings)) as cluster:
        yield cluster


def tool(cluster: ClusterProcess, name: str, *words: str) -> str:
    first = cluster.brokers[1].bootstrap_servers
    done = run_tool(name, *words, "--bootstrap-server", first)
    assert done.returncode == 0, done.stdout + done.stderr + cluster.output()
    return done.stdout


def described(cluster: ClusterProcess) -> dict[str, Row]:
    text = tool(cluster, "kafka-topics", "--describe")
    rows: dict[str, Row] = {}
    for topic, leader, replicas, *sets in _LINE.findall(text):
        isr, elr, last_known = (",".join(sorted(each.split(","))) for each in sets)
        rows[topic] = (leader, replicas, isr, elr, last_known)
    return rows


def becomes(cluster: ClusterProcess, **expected: Row) -> None:
    seen: dict[str, Row] = {}

    def is_so() -> bool:
        seen.update(described(cluster))
        return all(seen.get(topic) == row for topic, row in expected.items())

    try:
        eventually(is_so, "what is told of the topics", seconds=60)
    except AssertionError:
        assert {topic: seen.get(topic) for topic in expected} == expected


def move(cluster: ClusterProcess, directory: Path, topic: str, replicas: list[int]) -> None:
    plan = directory / "plan.json"
    wanted = {"topic": topic, "partition": 0, "replicas": replicas}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    words = ("--reassignment-json-file", str(plan))
    tool(cluster, "kafka-reassign-partitions", *words, "--execute")
    eventually(partial(has_moved, cluster, words), "the move", seconds=60)


def has_moved(cluster: ClusterProcess, words: tuple[str, ...]) -> bool:
    return "is completed" in tool(cluster, "kafka-reassign-partitions", *words, "--verify")


def test_both_decide_alike(cluster: ClusterProcess, tmp_path: Path) -> None:
    for topic, replicas in (("three", "3:1:2"), ("two", "3:1"), ("one", "3")):
        words = ("--create", "--topic", topic, "--replica-assignment", replicas)
        tool(cluster, "kafka-topics", *words)
    becomes(
        cluster,
        three=("3", "3,1,2", "1,2,3", "", ""),
        two=("3", "3,1", "1,3", "", ""),
        one=("3", "3", "3", "", ""),
    )

    cluster.brokers[3].stop()
    becomes(
        cluster,
        three=("1", "3,1,2", "1,2", "", ""),
        two=("1", "3,1", "1", "3", ""),
        one=("none", "3", "", "3", "3"),
    )

    move(cluster, tmp_path, "two", [1, 2])
    becomes(cluster, two=("1", "1,2", "1,2", "", ""))

    cluster.brokers[3].start(timeout=120)
    becomes(
        cluster,
        three=("1", "3,1,2", "1,2,3", "", ""),
        one=("3", "3", "3", "", ""),
    )

    election = ("--election-type", "preferred", "--all-topic-partitions")
    tool(cluster, "kafka-leader-election", *election)
    becomes(cluster, three=("3", "3,1,2", "1,2,3", "", ""))

    move(cluster, tmp_path, "three", [2, 1])
    becomes(cluster, three=("2", "2,1", "1,2", "", ""))

    cluster.brokers[3].stop()
    becomes(cluster, one=("none", "3", "", "3", "3"))
    tool(cluster, "kafka-cluster", "unregister", "--id", "3")
    becomes(cluster, one=("none", "3", "", "3", "3"), three=("2", "2,1", "1,2", "", ""))
    listed = tool(cluster, "kafka-cluster", "list-endpoints", "--include-fenced-brokers")
    assert re.findall(r"^(\d+)\s", listed, re.MULTILINE) == ["1", "2"]
