"""Apache's own tools against three of our nodes, whichever of them is asked."""

import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.integration.processes import COMBINED, Processes
from tests.waiting import eventually
from tools.kafka_peer.peer import run_tool, tool_command

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    cluster = Processes(directory, COMBINED)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def tool(*words: str) -> str:
    done = run_tool(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def voters(text: str) -> dict[int, str]:
    rows = [line.split() for line in text.splitlines()]
    return {int(row[0]): row[-1] for row in rows if row and row[0].isdigit()}


def test_the_quorum_is_described_by_every_controller_and_every_broker(cluster: Processes) -> None:
    expected = dict.fromkeys(cluster.controllers, "Follower")
    expected[cluster.active_controller()] = "Leader"
    for node_id in cluster.roles:
        words = ("--bootstrap-controller", cluster.bootstrap_controller(node_id))
        text = tool("kafka-metadata-quorum", *words, "describe", "--replication")
        assert voters(text) == expected
        words = ("--bootstrap-server", cluster.bootstrap_server(node_id))
        text = tool("kafka-metadata-quorum", *words, "describe", "--status")
        assert re.search(rf"LeaderId:\s+{cluster.active_controller()}\b", text)


def test_brokers_and_controllers_are_listed(cluster: Processes) -> None:
    for node_id in cluster.roles:
        words = ("list-endpoints", "--bootstrap-server", cluster.bootstrap_server(node_id))
        found = re.findall(
            r"^(\d+)\s+\S+\s+(\d+)\s+.*unfenced", tool("kafka-cluster", *words), re.MULTILINE
        )
        assert {int(each): int(port) for each, port in found} == cluster.broker_ports
        words = ("list-endpoints", "--bootstrap-controller", cluster.bootstrap_controller(node_id))
        found = re.findall(r"^(\d+)\s+\S+\s+(\d+)\s", tool("kafka-cluster", *words), re.MULTILINE)
        assert {int(each): int(port) for each, port in found} == cluster.controller_ports


def test_topics_are_created_and_described_through_every_broker(cluster: Processes) -> None:
    for node_id in cluster.brokers:
        words = ("--bootstrap-server", cluster.bootstrap_server(node_id))
        options = ("--create", "--topic", f"t{node_id}", "--replication-factor", "3")
        tool("kafka-topics", *words, *options)

    for node_id in cluster.brokers:
        eventually(partial(has_leaders, cluster, node_id), "the topics")


def has_leaders(cluster: Processes, node_id: int) -> bool:
    words = ("--bootstrap-server", cluster.bootstrap_server(node_id), "--describe")
    leaders = re.findall(r"Topic: (t\d)\tPartition: 0\tLeader: \d\t", tool("kafka-topics", *words))
    return set(leaders) == {"t1", "t2", "t3"}


def test_features_are_described_by_brokers_and_controllers_alike(cluster: Processes) -> None:
    described = {
        tool("kafka-features", *words, "describe")
        for node_id in cluster.roles
        for words in (
            ("--bootstrap-server", cluster.bootstrap_server(node_id)),
            ("--bootstrap-controller", cluster.bootstrap_controller(node_id)),
        )
    }
    levels = {
        tuple(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", t)) for t in described
    }
    assert len(levels) == 1
    assert ("metadata.version", "4.3-IV0") in levels.pop()


def test_replicas_are_found_to_be_equal_by_apaches_verification(cluster: Processes) -> None:
    """It fetches from every replica, as a debugger: with the replica id -2, from followers too."""
    server = cluster.bootstrap_server(1)
    words = ("--bootstrap-server", server, "--create", "--topic", "verified")
    tool("kafka-topics", *words, "--replication-factor", "3", "--partitions", "3")
    lines = "".join(f"{number}\n" for number in range(500))
    produced = run_tool(
        "kafka-console-producer", "--bootstrap-server", server, "--topic", "verified", stdin=lines
    )
    assert produced.returncode == 0, produced.stderr
    command = tool_command(
        "kafka-replica-verification", "--broker-list", server, "--topics-include", "verified",
        "--report-interval-ms", "1000",
    )  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lags = [line for line, _ in zip(process.stdout, range(8), strict=False)]
        finally:
            process.kill()
    assert any("max lag is 0 for partition verified-" in line for line in lags), lags
    assert not any("mismatch" in line.lower() or "error" in line.lower() for line in lags), lags
