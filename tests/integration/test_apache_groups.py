"""Consumer groups with Apache Kafka's Java client and tools, and their records in its dump."""

import re

import pytest
from tests.integration.admin import create_topic
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import NewBroker
from tests.integration.test_apache_tools import tool
from tools.kafka_peer.broker_process import BrokerProcess
from tools.kafka_peer.peer import run_tool

pytestmark = pytest.mark.peer


def console(broker: BrokerProcess, group: str, count: int, *args: str, protocol: str) -> list[str]:
    """What a console consumer of the group reads."""
    printed = tool(
        broker, "kafka-console-consumer", "--group", group, "--from-beginning",
        "--command-property", f"group.protocol={protocol}", "--max-messages", str(count),
        "--timeout-ms", "30000", *args,
    )  # fmt: skip
    return printed.split()


def dumped(broker: BrokerProcess) -> str:
    """All records of groups, as Kafka's tool prints them."""
    files = sorted(broker.log_directory.glob("__consumer_offsets-*/*.log"))
    named = ",".join(str(path) for path in files if path.stat().st_size)
    done = run_tool("kafka-dump-log", "--files", named, "--offsets-decoder")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_java_consumer_joins_commits_and_resumes(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "java", partitions=3)
    for partition in range(3):
        messages = [Message(b"%d-%d" % (partition, number)) for number in range(10)]
        CLIENTS[0].produce(broker.bootstrap_servers, "java", messages, partition=partition)
    topic = ("--topic", "java")
    assert len(set(console(broker, "group", 30, *topic, protocol="consumer"))) == 30
    CLIENTS[0].produce(broker.bootstrap_servers, "java", [Message(b"new")])
    assert console(broker, "group", 1, *topic, protocol="consumer") == ["new"]
    CLIENTS[0].produce(broker.bootstrap_servers, "java", [Message(b"newer")])
    assert console(broker, "group", 1, *topic, protocol="classic") == ["newer"]
    CLIENTS[0].produce(broker.bootstrap_servers, "java", [Message(b"newest")])
    assert console(broker, "group", 1, *topic, protocol="consumer") == ["newest"]
    printed = dumped(broker)
    for kind in (1, 2, 3, 5, 6, 7, 8):
        assert f'"type":"{kind}"' in printed, f"no record of kind {kind}"
    assert re.search(r'"type":"3".*"epoch":2,"metadataHash":-?\d+', printed)
    assert re.search(r'"type":"8".*"partitions":\[0,1,2\],"assignmentEpochs":\[2,2,2\]', printed)
    assert "unknown" not in printed.lower().replace("unknown_", "")


def test_kafka_groups_and_consumer_groups_show_reset_and_delete(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "java")
    CLIENTS[0].produce(broker.bootstrap_servers, "java", [Message(b"x")] * 10)
    console(broker, "group", 10, "--topic", "java", protocol="consumer")
    listed = tool(broker, "kafka-groups", "--list", "--group-type", "consumer")
    assert re.search(r"group\s+Consumer\s+consumer", listed), listed
    groups = ("kafka-consumer-groups", "--group", "group")
    assert re.search(r"group\s+java\s+0\s+10\s+10\s+0", tool(broker, *groups, "--describe"))
    assert re.search(r"uniform\s+Empty\s+0", tool(broker, *groups, "--describe", "--state"))
    by_state = tool(broker, "kafka-consumer-groups", "--list", "--state", "empty", "--type")
    assert re.search(r"group\s+Consumer\s+Empty", by_state), by_state
    to_offset = ("--reset-offsets", "--topic", "java", "--to-offset", "4", "--execute")
    assert re.search(r"group\s+java\s+0\s+4", tool(broker, *groups, *to_offset))
    deleted = tool(broker, *groups, "--delete-offsets", "--topic", "java")
    assert "successful" in deleted.lower(), deleted
    assert "successful" in tool(broker, *groups, "--delete")
    assert "group" not in tool(broker, "kafka-groups", "--list").split()[3:]


def test_kafka_configs_changes_groups(broker: BrokerProcess, topic_name: str) -> None:
    entity = ("kafka-configs", "--entity-type", "groups", "--entity-name", topic_name)
    tool(broker, *entity, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in tool(broker, *entity, "--describe")
    refused = tool(
        broker, *entity, "--alter", "--add-config", "consumer.session.timeout.ms=1", fails=True
    )
    assert "group.consumer.min.session.timeout.ms" in refused
    tool(broker, *entity, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in tool(broker, *entity, "--describe")


def test_a_group_is_there_after_a_restart(new_broker: NewBroker) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "java")
    CLIENTS[0].produce(broker.bootstrap_servers, "java", [Message(b"x")])
    console(broker, "regex", 1, "--include", "ja.*", protocol="consumer")
    broker.stop()
    broker.start()
    described = tool(broker, "kafka-consumer-groups", "--describe", "--group", "regex")
    assert re.search(r"regex\s+java\s+0\s+1\s+1\s+0", described), described
    assert "<DELETE>" in dumped(broker)
