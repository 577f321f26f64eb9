"""Apache's own tools make a static quorum of our nodes dynamic, and change its voters then."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.processes import COMBINED, Processes
from tests.waiting import eventually
from tools.kafka_peer.peer import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    cluster = Processes(tmp_path, COMBINED)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def upgrade(cluster: Processes) -> str:
    words = ("--bootstrap-server", cluster.bootstrap_server(1), "upgrade")
    done = run_tool("kafka-features", *words, "--feature", "kraft.version=1")
    return done.stdout + done.stderr


def quorum(cluster: Processes, *words: str) -> str:
    address = cluster.bootstrap_controller(cluster.active_controller())
    done = run_tool("kafka-metadata-quorum", "--bootstrap-controller", address, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replicas(cluster: Processes) -> dict[int, tuple[str, str]]:
    """The directory and the role of each node."""
    lines = quorum(cluster, "describe", "--replication").splitlines()
    rows = [line.split() for line in lines]
    return {int(row[0]): (row[1], row[-1]) for row in rows if row and row[0].isdigit()}


def test_kafka_features_upgrades_the_quorum_and_a_voter_leaves_and_joins(
    cluster: Processes,
) -> None:
    eventually(lambda: "was upgraded to 1" in upgrade(cluster), "the upgrade")
    found = replicas(cluster)
    assert sorted(found) == [1, 2, 3]
    for node_id in found:
        meta = (cluster.directory / f"data{node_id}" / "meta.properties").read_text()
        assert f"directory.id={found[node_id][0]}" in meta
    follower = next(each for each in found if found[each][1] == "Follower")
    words = ("--controller-id", str(follower), "--controller-directory-id", found[follower][0])
    quorum(cluster, "remove-controller", *words)
    assert replicas(cluster)[follower][1] == "Observer"
    properties = str(cluster.directory / f"{follower}.properties")
    quorum(cluster, "--command-config", properties, "add-controller")
    eventually(lambda: replicas(cluster)[follower][1] == "Follower", "the voter")
    cluster.kill(follower)
    cluster.start(follower)
    eventually(lambda: replicas(cluster)[follower][1] == "Follower", "the voter after a restart")
