"""Commands for clusters against three brokers: ours, and Apache Kafka's for comparison."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.command import Command
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import apache_kafka

from ottla.cli.main import cli
from ottla.client.descriptions import NewTopic
from ottla.testing.cluster import Cluster

pytestmark = pytest.mark.timeout(240)

Documents = Callable[..., dict[str, Any]]
"""What a command says, as JSON."""


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.peer)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    command = None if request.param == "ottla" else apache_kafka(heap=("-Xmx256M",)).serve_words
    with Cluster(3, command=command, racks=["a", "b", "c"], dynamic=True) as started:
        yield started


@pytest.fixture
def ottla(cluster: Cluster) -> Documents:
    return Command(cluster.bootstrap_servers).document


def make(cluster: Cluster, name: str, assignments: list[list[int]]) -> None:
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(name, assignments=dict(enumerate(assignments)))])
    cluster.wait_until_in_sync()


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    with cluster.admin() as admin:
        return [each.replicas for each in admin.describe_topics([topic])[topic].partitions]


def test_the_quorum_has_three_voters_by_brokers_and_by_controllers(
    ottla: Documents, cluster: Cluster
) -> None:
    described = ottla("quorum", "describe")
    assert [each["status"] for each in described["replicas"]] == ["leader", *["follower"] * 2]
    assert {each["node_id"] for each in described["replicas"]} == {1, 2, 3}
    addresses = [each["endpoints"][0].partition("://")[2] for each in described["replicas"]]
    for address in addresses:
        words = ["quorum", "describe", "--bootstrap-controller", address, "--json"]
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["leader_id"] == described["leader_id"]


def test_the_cluster_tells_racks_and_roles(ottla: Documents) -> None:
    nodes = ottla("cluster", "describe")["nodes"]
    assert [each["rack"] for each in nodes] == ["a", "b", "c"]
    assert sum("controller (active)" in each["roles"] for each in nodes) == 1


def test_replicas_move_by_a_plan_and_its_throttle_goes_with_it(
    ottla: Documents, cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "moving", [[1, 2], [1, 2], [2, 1]])
    file, back = str(tmp_path / "plan.json"), str(tmp_path / "back.json")
    plan = ottla("reassign", "plan", "-t", "moving", "--brokers", "1,3", "-o", file)
    assert len(plan["partitions"]) == 3
    started = ottla(
        "reassign", "execute", file, "--throttle", "50000000", "--save-current", back, "--wait"
    )
    assert len(started["done"]) == 3
    assert sorted(map(sorted, replicas(cluster, "moving"))) == [[1, 3]] * 3
    states = ottla("reassign", "verify", file)["partitions"]
    assert {each["state"] for each in states} == {"completed"}
    assert ottla("reassign", "verify", back, code=1)["partitions"][0]["state"] == "different"
    configs = json.dumps(ottla("configs", "describe", "topic", "moving"))
    assert "throttled" not in configs
    assert ottla("reassign", "list") == {"reassignments": []}
    assert ottla("reassign", "cancel", file) == {"cancelled": []}


@pytest.mark.peer
def test_apaches_tool_reads_our_plans_and_we_read_its(
    ottla: Documents, cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "shared-plan", [[1, 2], [1, 2], [2, 1]])
    file, theirs = tmp_path / "plan.json", tmp_path / "theirs.json"
    ottla("reassign", "plan", "-t", "shared-plan", "--brokers", "1,3", "-o", str(file))
    words = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(file))
    executed = peer.run_tool("kafka-reassign-partitions", *words, "--execute", "--throttle", "9000")
    assert "Successfully started" in executed.stdout, executed
    theirs.write_text(next(line for line in executed.stdout.splitlines() if line.startswith("{")))
    cluster.wait_until(lambda: not ottla("reassign", "list")["reassignments"], 60, "all is moved")
    verified = peer.run_tool("kafka-reassign-partitions", *words, "--verify")
    assert verified.stdout.count("is completed.") == 3, verified
    ottla("reassign", "execute", str(theirs), "--wait")
    assert replicas(cluster, "shared-plan") == [[1, 2], [1, 2], [2, 1]]


def test_topics_get_more_copies_in_other_racks(
    ottla: Documents, cluster: Cluster, tmp_path: Path
) -> None:
    make(cluster, "growing", [[1], [2]])
    file = str(tmp_path / "plan.json")
    ottla("reassign", "plan", "-t", "growing", "-r", "3", "-o", file)
    ottla("reassign", "execute", file, "--wait")
    assert [sorted(each) for each in replicas(cluster, "growing")] == [[1, 2, 3]] * 2
    cluster.wait_until_in_sync()


def test_health_tells_of_a_broker_that_is_gone_and_of_its_return(
    ottla: Documents, cluster: Cluster
) -> None:
    make(cluster, "health", [[1, 2, 3]])
    assert ottla("cluster", "health")["healthy"]
    victim = next(node.node_id for node in cluster.brokers if node.node_id != cluster.controller())
    cluster.stop(victim)
    words = ("cluster", "health", "--max-lag", "1")

    def kinds() -> set[str]:
        invoked = CliRunner().invoke(cli, [*words, "-b", cluster.bootstrap_servers, "--json"])
        document = json.loads(invoked.stdout)
        assert invoked.exit_code == (0 if document["healthy"] else 1)
        return {each["kind"] for each in document.get("problems", [])}

    expected = {"under-replicated", "fenced-broker", "lagging-voter"}
    cluster.wait_until(lambda: kinds() >= expected, 30, "health tells all")
    cluster.start(victim)
    cluster.wait_until_in_sync()
    cluster.wait_until(lambda: kinds() == set(), 30, "all is well")


def test_preferred_leaders_are_elected_after_a_return(ottla: Documents, cluster: Cluster) -> None:
    make(cluster, "electing", [[1, 2, 3], [2, 3, 1]])
    cluster.restart(1)
    cluster.wait_until_in_sync()
    assert cluster.leader("electing") != 1
    elected = ottla("elect-leaders", "-t", "electing")["elections"]
    assert [(each["partition"], each["elected"]) for each in elected] == [(0, True), (1, False)]
    cluster.wait_until(lambda: cluster.leader("electing") == 1, 10, "the first replica leads")


def test_a_voter_leaves_and_comes_back(ottla: Documents, cluster: Cluster) -> None:
    active = cluster.controller()
    victim = next(node for node in cluster.brokers if node.node_id != active)
    ottla("quorum", "remove", str(victim.node_id), "-y")
    statuses = {each["node_id"]: each["status"] for each in ottla("quorum", "describe")["replicas"]}
    assert statuses[victim.node_id] == "observer"
    file = victim.process.directory / "server.properties"
    (added,) = ottla("quorum", "add", "-c", str(file))["added"]
    assert added["node_id"] == victim.node_id
    statuses = {each["node_id"]: each["status"] for each in ottla("quorum", "describe")["replicas"]}
    assert statuses[victim.node_id] == "follower"


def test_a_broker_that_is_gone_is_forgotten(ottla: Documents, cluster: Cluster) -> None:
    """Until it comes back, and registers as if for the first time."""
    victim = next(node.node_id for node in cluster.brokers if node.node_id != cluster.controller())
    (error,) = ottla("cluster", "unregister", str(victim), "-y", code=1)["errors"]
    assert error["error"] == "BROKER_RUNS"
    assert ottla("cluster", "health")["healthy"]
    cluster.kill(victim)
    ottla("cluster", "unregister", str(victim), "-y")

    def is_forgotten() -> bool:
        nodes = {each["node_id"]: each for each in ottla("cluster", "describe")["nodes"]}
        return victim not in nodes or "broker" not in nodes[victim]["roles"]

    cluster.wait_until(is_forgotten, 20, "it is forgotten")
    cluster.start(victim)
    cluster.wait_until_in_sync()
    assert not is_forgotten()
