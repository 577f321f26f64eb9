"""Apache's tools and its Java client, over SASL_SSL, at a node of ours with an authorizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.secured import command_config, secured
from tools.kafka_peer.broker_process import BrokerProcess, answers_over_tls, ottla
from tools.kafka_peer.peer import run_tool

from ottla.protocol.api import ApiKey
from ottla.requests.table import served

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
SCRAM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(ottla(), tmp_path_factory.mktemp("secured"))
    process.settings, process.answers = secured(process), answers_over_tls
    process.start()
    yield process
    process.kill()


class Tools:
    """Runs Apache's tools as a user of the node."""

    def __init__(self, node: BrokerProcess, directory: Path) -> None:
        self._node = node
        self._directory = directory

    def __call__(
        self,
        name: str,
        *words: str,
        user: str = "admin",
        mechanism: str = "PLAIN",
        stdin: str = "",
        fails: bool = False,
    ) -> str:
        if "--bootstrap-controller" not in words:
            words = ("--bootstrap-server", self._node.bootstrap_servers, *words)
        file = command_config(self._directory, user, mechanism)
        done = run_tool(name, "--command-config", file, *words, stdin=stdin)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def tools(node: BrokerProcess, tmp_path: Path) -> Tools:
    return Tools(node, tmp_path)


def test_kafka_acls_adds_lists_and_removes_at_brokers_and_controllers(
    tools: Tools, node: BrokerProcess
) -> None:
    acl = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "acls")
    added = tools("kafka-acls", "--add", *acl)
    assert "operation=READ, permissionType=ALLOW" in added
    deny = ("--deny-principal", "User:bob", "--operation", "All", "--topic", "acls-",
            "--resource-pattern-type", "prefixed", "--deny-host", "10.0.0.1")  # fmt: skip
    controller = ("--bootstrap-controller", f"127.0.0.1:{node.controller_port}")
    tools("kafka-acls", *controller, "--add", *deny)
    for at in ((), controller):
        listed = tools("kafka-acls", *at, "--list")
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
        assert "patternType=PREFIXED" in listed
    matching = ("--topic", "acls-x", "--resource-pattern-type", "match")
    assert "User:bob" in tools("kafka-acls", "--list", *matching)
    refused = tools("kafka-acls", "--list", user="alice", fails=True)
    assert "ClusterAuthorizationException" in refused
    tools("kafka-acls", *controller, "--remove", "--force", *acl)
    listed = tools("kafka-acls", "--list")
    assert "User:alice" not in listed
    assert "User:bob" in listed, "one of two was removed"


def test_the_java_client_by_scram_does_what_it_may(tools: Tools) -> None:
    password = f"{SCRAM}=[iterations=4096,password=carol-secret]"
    users = ("--entity-type", "users", "--entity-name", "carol")
    tools("kafka-configs", "--alter", "--add-config", password, *users)
    if ApiKey.DESCRIBE_CLIENT_QUOTAS in served(of_controller=False):  # which it asks for first
        assert f"{SCRAM}=iterations=4096" in tools("kafka-configs", "--describe", *users)
    topic = ("--topic", "of-carol")
    tools("kafka-topics", "--create", *topic, "--partitions", "1")

    def produce(lines: str) -> str:
        return tools("kafka-console-producer", *topic, user="carol", mechanism=SCRAM, stdin=lines)

    def consume() -> str:
        words = ("--group", "carols", "--from-beginning", "--max-messages", "2")
        patience = ("--timeout-ms", "30000")
        name = "kafka-console-consumer"
        return tools(name, *topic, *words, *patience, user="carol", mechanism=SCRAM)

    refused = produce("a\n")
    assert "TopicAuthorizationException" in refused or "TOPIC_AUTHORIZATION_FAILED" in refused
    allow = ("kafka-acls", "--add", "--allow-principal", "User:carol", *topic)
    tools(*allow, "--producer")
    produce("a\nb\n")
    refused = consume()
    assert "AuthorizationException" in refused
    assert "Processed a total of 0 messages" in refused
    tools(*allow, "--consumer", "--group", "carols")
    read = consume().splitlines()
    assert [line for line in read if line in {"a", "b"}] == ["a", "b"]

    tools("kafka-configs", "--alter", "--delete-config", SCRAM, *users)
    assert "SaslAuthenticationException" in consume()
