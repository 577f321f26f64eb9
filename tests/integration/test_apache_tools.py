"""Apache Kafka's own command-line tools, which use its Java client, against a broker."""

import json
import re
from pathlib import Path

import pytest
from tests.integration.admin import create_topic, delete_records, offsets
from tests.integration.clients import CLIENTS, COMPRESSIONS, Message
from tests.integration.conftest import NewBroker
from tests.integration.test_disks import move, wait_for_move
from tools.kafka_peer.broker_process import BrokerProcess
from tools.kafka_peer.peer import run_tool

pytestmark = pytest.mark.peer
SERVED = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "ApiVersions", "CreateTopics",
    "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs",
    "AlterConfigs", "IncrementalAlterConfigs", "DescribeLogDirs", "AlterReplicaLogDirs",
    "CreatePartitions", "DescribeProducers", "UpdateFeatures", "DescribeQuorum", "DescribeCluster",
    "ListConfigResources", "DescribeTopicPartitions",
)  # fmt: skip


def tool(broker: BrokerProcess, name: str, *args: str, stdin: str = "", fails: bool = False) -> str:
    """Run a tool against the broker; its output, when it ended as it should."""
    done = run_tool(name, "--bootstrap-server", broker.bootstrap_servers, *args, stdin=stdin)
    assert (done.returncode != 0) == fails, f"{done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if fails else "")


def test_kafka_topics_creates_lists_describes_grows_and_deletes(
    broker: BrokerProcess, topic_name: str
) -> None:
    named = ("--topic", topic_name)
    made = tool(
        broker, "kafka-topics", "--create", *named, "--partitions", "3",
        "--replication-factor", "1", "--config", "retention.ms=100000",
    )  # fmt: skip
    assert f"Created topic {topic_name}." in made
    assert topic_name in tool(broker, "kafka-topics", "--list").splitlines()

    described = tool(broker, "kafka-topics", "--describe", *named)
    assert re.search(
        r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=100000", described
    )
    for partition in range(3):
        assert re.search(rf"Partition: {partition}\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)

    tool(broker, "kafka-topics", "--alter", *named, "--partitions", "5")
    assert "PartitionCount: 5" in tool(broker, "kafka-topics", "--describe", *named)
    again = tool(broker, "kafka-topics", "--create", *named, fails=True)
    assert "already exists" in again
    tool(broker, "kafka-topics", "--delete", *named)
    assert topic_name not in tool(broker, "kafka-topics", "--list").splitlines()
    missing = tool(broker, "kafka-topics", "--describe", *named, fails=True)
    assert "does not exist" in missing


def test_kafka_configs_changes_topics(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    entity = ("--entity-type", "topics", "--entity-name", topic_name)
    tool(broker, "kafka-configs", "--alter", *entity, "--add-config",
         "segment.bytes=2000000,cleanup.policy=[compact,delete]")  # fmt: skip

    described = tool(broker, "kafka-configs", "--describe", *entity)
    assert "segment.bytes=2000000" in described
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000" in described
    assert "cleanup.policy=compact,delete" in described
    everything = tool(broker, "kafka-configs", "--describe", "--all", *entity)
    assert "retention.ms=" in everything

    tool(broker, "kafka-configs", "--alter", *entity, "--delete-config", "segment.bytes")
    assert "segment.bytes=2000000" not in tool(broker, "kafka-configs", "--describe", *entity)
    refused = tool(
        broker, "kafka-configs", "--alter", *entity, "--add-config", "no.such=1", fails=True
    )
    assert "no.such" in refused


def test_kafka_configs_changes_brokers(broker: BrokerProcess, topic_name: str) -> None:
    for entity in (("--entity-default",), ("--entity-name", "1")):
        words = ("--entity-type", "brokers", *entity)
        tool(broker, "kafka-configs", "--alter", *words, "--add-config", "log.roll.ms=9000000")
        assert "log.roll.ms=9000000" in tool(broker, "kafka-configs", "--describe", *words)
        tool(broker, "kafka-configs", "--alter", *words, "--delete-config", "log.roll.ms")
        assert "log.roll.ms=9000000" not in tool(broker, "kafka-configs", "--describe", *words)
    refused = tool(
        broker, "kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "1",
        "--add-config", "node.id=7", fails=True,
    )  # fmt: skip
    assert "node.id" in refused


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_java_client_writes_and_reads(
    compression: str, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    lines = "".join(f"key{n}:value{n}\n" for n in range(50))
    tool(
        broker, "kafka-console-producer", "--topic", topic_name, "--compression-codec", compression,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:", stdin=lines,
    )  # fmt: skip
    read = tool(
        broker, "kafka-console-consumer", "--topic", topic_name, "--partition", "0",
        "--offset", "earliest", "--max-messages", "50", "--timeout-ms", "20000",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert read == lines
    for client in CLIENTS:
        received = client.consume(broker.bootstrap_servers, topic_name, 50)
        assert [each.value for each in received] == [b"value%d" % n for n in range(50)]


def test_the_java_client_reads_what_others_wrote(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    for client in CLIENTS:
        for compression in COMPRESSIONS:
            message = Message(f"{client.name} {compression}".encode(), None, (("h", b"x"),))
            client.produce(broker.bootstrap_servers, topic_name, [message], compression=compression)
    read = tool(
        broker, "kafka-console-consumer", "--topic", topic_name, "--partition", "0",
        "--offset", "earliest", "--max-messages", "15", "--timeout-ms", "20000",
        "--formatter-property", "print.headers=true",
    )  # fmt: skip
    assert read.splitlines() == [
        f"h:x\t{client.name} {compression}" for client in CLIENTS for compression in COMPRESSIONS
    ]


def test_kafka_get_offsets_knows_the_special_times(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    sent = [Message(b"x", timestamp=1_700_000_000_000 + n) for n in range(10)]
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, sent)
    delete_records(broker.bootstrap_servers, topic_name, 3)

    def listed(*args: str) -> list[str]:
        output = tool(broker, "kafka-get-offsets", "--topic", topic_name, *args)
        return [line.removeprefix(f"{topic_name}:") for line in output.split()]

    assert listed() == ["0:10", "1:0"]
    assert listed("--time", "earliest") == ["0:3", "1:0"]
    assert listed("--time", "max-timestamp") == ["0:9"]
    assert listed("--time", "earliest-local") == ["0:3", "1:0"]
    assert listed("--time", "1700000000005") == ["0:5"]


def test_kafka_delete_records(broker: BrokerProcess, topic_name: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"x")] * 10)
    plan = tmp_path / "plan.json"
    partitions = [{"topic": topic_name, "partition": 0, "offset": 4}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))

    done = tool(broker, "kafka-delete-records", "--offset-json-file", str(plan))

    assert f"partition: {topic_name}-0\tlow_watermark: 4" in done
    assert offsets(broker.bootstrap_servers, topic_name) == (4, 10)


def test_kafka_log_dirs(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"x")])
    output = tool(broker, "kafka-log-dirs", "--describe", "--topic-list", topic_name)
    described = json.loads(output.splitlines()[-1])
    (directory,) = described["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(broker.log_directory)
    sizes = {row["partition"]: row["size"] for row in directory["partitions"]}
    size = (broker.log_directory / f"{topic_name}-0" / f"{0:020}.log").stat().st_size
    assert sizes == {f"{topic_name}-0": size, f"{topic_name}-1": 0}


def test_kafka_log_dirs_sees_a_log_that_was_moved(new_broker: NewBroker, tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    broker = new_broker(log_dirs=",".join(map(str, directories)))
    create_topic(broker.bootstrap_servers, "t")
    CLIENTS[0].produce(broker.bootstrap_servers, "t", [Message(b"x")] * 100)
    for target in (directories[1], directories[0]):
        assert move(broker, target, "t") == 0
        wait_for_move(broker, target, "t")
        output = tool(broker, "kafka-log-dirs", "--describe", "--topic-list", "t")
        found = json.loads(output.splitlines()[-1])["brokers"][0]["logDirs"]
        assert [each["logDir"] for each in found if each["partitions"]] == [str(target)]
        assert not any(row["isFuture"] for each in found for row in each["partitions"])


def test_kafka_broker_api_versions(broker: BrokerProcess) -> None:
    output = tool(broker, "kafka-broker-api-versions")
    for api in SERVED:
        assert re.search(rf"\t{api}\(\d+\): .*\[usable: \d+\]", output), api
    assert f"127.0.0.1:{broker.port} (id: 1 rack: null" in output


def test_kafka_features_describes_and_refuses(broker: BrokerProcess) -> None:
    output = tool(broker, "kafka-features", "describe")
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: 4.3-IV0", output)
    for feature in ("kraft.version", "group.version", "transaction.version", "share.version"):
        assert f"Feature: {feature} " in output
    refused = tool(broker, "kafka-features", "upgrade", "--feature", "group.version=99", fails=True)
    assert "group.version" in refused


def test_kafka_metadata_quorum_describes(broker: BrokerProcess) -> None:
    status = tool(broker, "kafka-metadata-quorum", "describe", "--status")
    assert re.search(rf"ClusterId:\s+{re.escape(broker.cluster_id)}", status)
    assert re.search(r"LeaderId:\s+1\n", status)
    assert f"CONTROLLER://127.0.0.1:{broker.controller_port}" in status
    replication = tool(broker, "kafka-metadata-quorum", "describe", "--replication")
    assert re.search(r"\n1\s+\S{22}\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replication)


def test_kafka_cluster_names_the_cluster_and_its_endpoints(broker: BrokerProcess) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    named = run_tool("kafka-cluster", "cluster-id", *servers)
    assert named.stdout.strip() == f"Cluster ID: {broker.cluster_id}"
    listed = run_tool("kafka-cluster", "list-endpoints", *servers)
    assert re.search(rf"1\s+127.0.0.1\s+{broker.port}\s+null\s+unfenced\s+broker", listed.stdout)


def test_the_performance_tools_run(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    produced = run_tool(
        "kafka-producer-perf-test", "--topic", topic_name, "--num-records", "50000",
        "--record-size", "100", "--throughput", "-1",
        "--bootstrap-server", broker.bootstrap_servers,
        "--command-property", "acks=all",
    )  # fmt: skip
    assert "50000 records sent" in produced.stdout, produced.stderr
    assert offsets(broker.bootstrap_servers, topic_name) == (0, 50_000)
    consumed = tool(
        broker, "kafka-consumer-perf-test", "--topic", topic_name, "--num-records", "50000",
        "--timeout", "30000",
    )  # fmt: skip
    assert re.search(r"\n[^\n]*, 50\d{3}, ", consumed), consumed
    latency = tool(
        broker, "kafka-e2e-latency", "--topic", topic_name, "--num-records", "200",
        "--producer-acks", "all", "--record-size", "100",
    )  # fmt: skip
    assert "Percentiles: 50th" in latency


def test_kafka_consumer_groups_follows_a_group(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"x")] * 10)
    tool(
        broker, "kafka-console-consumer", "--topic", topic_name, "--group", topic_name,
        "--from-beginning", "--max-messages", "10", "--timeout-ms", "30000",
    )  # fmt: skip
    assert topic_name in tool(broker, "kafka-consumer-groups", "--list").split()
    described = tool(broker, "kafka-consumer-groups", "--describe", "--group", topic_name)
    assert re.search(rf"{topic_name}\s+0\s+10\s+10\s+0\s", described), described
