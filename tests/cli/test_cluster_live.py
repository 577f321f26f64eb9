"""``ottla cluster``, ``quorum``, ``reassign`` and ``elect-leaders`` against one broker.

What needs several brokers is in the integration tests.
"""

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.command import Command

from ottla.cli.main import cli

NUMBERS = itertools.count()


@pytest.fixture
def topic(ottla: Command) -> str:
    name = f"moved-{next(NUMBERS)}"
    ottla("topics", "create", name, "-p", "2")
    return name


def test_the_quorum_of_one_leads_itself(ottla: Command) -> None:
    document = ottla.document("quorum", "describe")
    assert document["leader_id"] == 1
    assert document["max_follower_lag"] == 0
    (replica,) = document["replicas"]
    assert replica["status"] == "leader"
    assert replica["lag"] == 0
    assert replica["log_end_offset"] >= document["high_watermark"] > 0
    text, _ = ottla("quorum", "describe", "--replication")
    assert text.split()[:3] == ["NODE-ID", "DIRECTORY-ID", "LOG-END-OFFSET"]
    assert f"leader-epoch:         {document['leader_epoch']}\n" in ottla("quorum", "describe")[0]


def test_the_controllers_listener_tells_the_same(ottla: Command) -> None:
    (replica,) = ottla.document("quorum", "describe")["replicas"]
    address = replica["endpoints"][0].removeprefix("CONTROLLER://")
    words = ["quorum", "describe", "--bootstrap-controller", address, "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["replicas"][0]["directory_id"] == replica["directory_id"]
    result = CliRunner().invoke(cli, [*words, "-b", ottla.bootstrap])
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_the_last_voter_and_one_that_is_none_are_not_removed(ottla: Command) -> None:
    assert ottla("quorum", "remove", "9", "-y", code=1)[1] == "there is no voter 9, only 1\n"
    (before,) = ottla.document("quorum", "describe")["replicas"]
    dry = ottla.document("quorum", "remove", "1", "--dry-run")["removed"]
    assert dry == [{"node_id": 1, "directory_id": before["directory_id"], "dry_run": True}]
    ottla("quorum", "remove", "1", "-y", code=1)
    assert len(ottla.document("quorum", "describe")["replicas"]) == 1


def test_a_new_controller_is_known_by_its_file_and_directory(
    ottla: Command, tmp_path: Path
) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(
        "process.roles=controller\nnode.id=5\nlisteners=CONTROLLER://:9093\n"
        "advertised.listeners=CONTROLLER://five.example:19093\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:9\nlog.dirs={tmp_path}/data\n"
    )
    missing = ottla("quorum", "add", "-c", str(file), "--dry-run", code=1)[1]
    assert "meta.properties" in missing
    formatted = ["storage", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(file)]
    assert CliRunner().invoke(cli, [*formatted, "--no-initial-controllers"]).exit_code == 0
    (added,) = ottla.document("quorum", "add", "-c", str(file), "--dry-run")["added"]
    meta = dict(
        line.split("=", 1)
        for line in (tmp_path / "data" / "meta.properties").read_text().splitlines()
        if "=" in line
    )
    assert added == {
        "node_id": 5,
        "directory_id": meta["directory.id"],
        "endpoints": ["CONTROLLER://five.example:19093"],
        "dry_run": True,
    }
    words = ("-i", "5", "-d", meta["directory.id"], "-e", "CONTROLLER://five.example:19093")
    assert ottla.document("quorum", "add", *words, "--dry-run")["added"] == [added]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give --config"),
        (("-i", "5", "-d", "short", "-e", "C://h:1"), "not a UUID"),
        (("-i", "5", "-d", "5L6g3nShT-eMCtK--X86sw", "-e", "h:1"), "not NAME://HOST:PORT"),
    ],
)
def test_half_a_voter_is_refused(ottla: Command, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in ottla("quorum", "add", *words, code=2)[1]


def test_a_cluster_is_described_with_its_features(ottla: Command) -> None:
    document = ottla.document("cluster", "describe")
    assert document["controller_id"] == 1
    assert document["features"]["metadata.version"] == 30
    (node,) = document["nodes"]
    assert node["roles"] == ["broker", "controller (active)"]
    assert node["fenced"] is False
    assert f"{node['host']}:{node['port']}" == ottla.bootstrap
    assert ottla("cluster", "describe")[0].startswith(f"cluster-id:   {document['cluster_id']}\n")


def test_a_whole_cluster_is_healthy_and_its_health_is_an_exit_code(
    ottla: Command, topic: str
) -> None:
    document = ottla.document("cluster", "health")
    assert document["healthy"]
    assert document["problems"] == []
    assert document["partitions"] >= 2
    assert ottla("cluster", "health")[0].startswith("healthy: 1 broker, ")
    wanted = f"{topic}-0"
    ottla("configs", "alter", "topic", topic, "--set", "min.insync.replicas=2")
    try:
        sick = ottla.document("cluster", "health", code=1)
    finally:
        ottla("configs", "alter", "topic", topic, "--delete", "min.insync.replicas")
    assert [each["kind"] for each in sick["problems"]] == ["under-min-isr"] * 2
    assert sick["problems"][0]["subject"] == wanted
    assert sick["problems"][0]["message"] == "1 of 1 in sync; acks=all needs 2"


def test_a_broker_that_lives_or_never_was_is_not_unregistered(ottla: Command) -> None:
    assert "not currently registered" in ottla("cluster", "unregister", "77", "-y", code=1)[1]
    (error,) = ottla.document("cluster", "unregister", "1", "-y", code=1)["errors"]
    assert error == {
        "error": "BROKER_RUNS",
        "message": f"broker 1 runs, at {ottla.bootstrap}: stop it first, or use --force",
    }
    assert len(ottla.document("cluster", "describe")["nodes"]) == 1


def test_nothing_is_planned_where_nothing_can_be_better(ottla: Command, topic: str) -> None:
    assert ottla.document("reassign", "plan", "-t", topic) == {"version": 1, "partitions": []}
    out, talk = ottla("reassign", "plan", "--all")
    assert out == ""
    assert talk.startswith("0 of ")
    assert "2 replicas and there are 1" in ottla("reassign", "plan", "--all", "-r", "2", code=2)[1]
    assert (
        "not among the brokers" in ottla("reassign", "plan", "--all", "--brokers", "8", code=2)[1]
    )
    assert "give --topic" in ottla("reassign", "plan", code=2)[1]
    assert "takes ids" in ottla("reassign", "plan", "--all", "--brokers", "a", code=2)[1]


def test_a_plan_is_executed_and_verified_and_what_is_not_there_is_said(
    ottla: Command, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    partitions = [
        {"topic": topic, "partition": 0, "replicas": [1]},
        {"topic": topic, "partition": 7, "replicas": [1]},
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    done = ottla.document("reassign", "execute", str(file), "--throttle", "5000", code=1)
    assert [each["partition"] for each in done["started"]] == [0]
    assert done["errors"][0]["partition"] == f"{topic}-7"
    configs = ottla.document("configs", "describe", "broker", "1")
    assert "leader.replication.throttled.rate" in json.dumps(configs)
    state = ottla.document("reassign", "verify", str(file), code=1)["partitions"]
    assert [(each["partition"], each["state"]) for each in state] == [(0, "completed")]
    configs = ottla.document("configs", "describe", "broker", "1")
    assert "leader.replication.throttled.rate" not in json.dumps(configs)
    assert ottla.document("reassign", "list") == {"reassignments": []}
    assert ottla.document("reassign", "cancel", str(file)) == {"cancelled": []}


def test_leaders_that_lead_need_no_election(ottla: Command, topic: str) -> None:
    rows = ottla.document("elect-leaders", "-t", topic)["elections"]
    assert rows == [
        {"topic": topic, "partition": at, "leader": 1, "elected": False} for at in (0, 1)
    ]
    assert ottla("elect-leaders", "--all")[1] == "no partition needs an election\n"
    (error,) = ottla.document("elect-leaders", "-t", topic, "-p", "9", code=1)["errors"]
    assert error["partition"] == f"{topic}-9"
    assert "give --topic or --all" in ottla("elect-leaders", code=2)[1]
    assert "one --topic" in ottla("elect-leaders", "--all", "-p", "1", code=2)[1]
