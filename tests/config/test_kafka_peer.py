"""Apache Kafka itself is asked: every key with many values, whole nodes, and DescribeConfigs."""

import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigSet
from ottla.config.describe import (
    Entry,
    describe_broker,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from ottla.config.group import GroupConfig
from ottla.config.kinds import Kind, text_of
from ottla.config.layers import Layers
from ottla.config.topic import TopicConfig
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.message import Message, from_bytes, to_bytes

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
SETS: dict[str, type[ConfigSet]] = {
    "broker": BrokerConfig,
    "topic": TopicConfig,
    "group": GroupConfig,
}
NUMBERS = ["0", "1", "-1", "-2", "+5", " 7 ", "", "x", "1.5", "99999999999999999999", "2147483647"]
VALUES = {
    Kind.BOOLEAN: ["true", "FALSE", " True ", "", "yes", "1"],
    Kind.INT: [*NUMBERS, "2147483648", "32768", "100", "12000", "5000000"],
    Kind.SHORT: [*NUMBERS, "32767", "32768"],
    Kind.LONG: [*NUMBERS, "9223372036854775807", "9223372036854775808", "100"],
    Kind.DOUBLE: [
        *NUMBERS,
        "0.3",
        "0.7",
        "1e-4",
        "1e9",
        "NaN",
        ".5",
        "5.",
        "0x1",
        "1d",
        "Infinity",
    ],
    Kind.STRING: ["", " ", "a", " a b ", "gzip", "NONE", "none", "PLAINTEXT", "LogAppendTime"],
    Kind.LIST: ["", " ", "a", "a,b", " a , b ", "a,,b", "a,a", ",", "delete", "broker", "1:2"],
    Kind.PASSWORD: ["", "x"],
    Kind.CLASS: [],
}
PASSED_OVER = {"group.share.persister.class.name"}
OUR_OWN = "ottla."
"""What the settings that Kafka does not have begin with."""


def ask_java(program: str, lines: list[str]) -> list[str]:
    done = subprocess.run(
        peer.java(str(HERE / program), flags=peer.SHORT_LIVED, logging="tools-log4j2.yaml"),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env=peer.environment(),
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(("ok", "error"))]
    assert len(answers) == len(lines), done.stderr
    return answers


def test_every_key_takes_and_refuses_the_values_that_kafka_does() -> None:
    cases = [
        (set_name, key.name, value)
        for set_name, config_set in SETS.items()
        for key in config_set.keys.values()
        for value in VALUES[key.kind]
        if key.name not in PASSED_OVER and not key.name.startswith(OUR_OWN)
    ]
    answers = ask_java("ConfigOracle.java", ["\t".join(case) for case in cases])
    different = []
    for (set_name, name, value), answer in zip(cases, answers, strict=True):
        try:
            ours = f"ok\t{text_of(SETS[set_name].keys[name].parse(value))}"
        except InvalidConfig as refusal:
            ours = f"error\t{refusal}"
        if ours != answer:
            different.append((name, value, answer, ours))
    assert different == []


def test_the_golden_nodes_are_still_what_kafka_says() -> None:
    node = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
    golden = (HERE / "golden" / "nodes.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in golden]
    questions = []
    for case in cases:
        properties = {**node, **case["set"]}
        questions.append(
            json.dumps({k: v for k, v in properties.items() if k not in case["unset"]})
        )
    for case, answer in zip(cases, ask_java("NodeOracle.java", questions), strict=True):
        said = answer.partition("\t")[2].removeprefix("requirement failed: ")
        assert said == case["refusal"]


class Wire:
    """One connection to a broker; no header is flexible in the versions that are used here."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 30)

    def ask(self, request: Message, version: int) -> bytes:
        frame = struct.pack(">hhih", request.API_KEY, version, 1, -1) + to_bytes(request, version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self.socket.recv(4, socket.MSG_WAITALL))
        return self.socket.recv(size, socket.MSG_WAITALL)[4:]

    def describe(self, kind: int, name: str) -> DescribeConfigsResult:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
            ],
            include_synonyms=True,
        )
        response = from_bytes(DescribeConfigsResponse, self.ask(request, 3), 3)
        (result,) = response.results
        assert result.error_code == 0, result.error_message
        return result

    def alter(self, kind: int, name: str, settings: dict[str, str]) -> None:
        configs = [AlterableConfig(name=key, value=value) for key, value in settings.items()]
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            ]
        )
        response = from_bytes(IncrementalAlterConfigsResponse, self.ask(request, 0), 0)
        assert [each.error_message for each in response.responses] == [None]

    def create_topic(self, name: str, settings: dict[str, str]) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = from_bytes(CreateTopicsResponse, self.ask(request, 4), 4)
        assert [each.error_code for each in response.topics] == [0]


BROKER_SETTINGS = {
    "log.retention.hours": "24",
    "log.segment.bytes": "2000000",
    "log.cleaner.min.cleanable.ratio": "0.250",
    "ssl.key.password": "secret",
    "log.roll.ms": "3600000",
    "some.unknown.key": "x",
    "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
    "unstable.api.versions.enable": "false",
}
CLUSTER_LAYER = {"log.retention.ms": "3000000", "log.cleaner.backoff.ms": "20000"}
BROKER_LAYER = {"log.segment.bytes": "3000000", "log.retention.ms": "4000000"}
TOPIC_SETTINGS = {"cleanup.policy": "compact,delete", "segment.bytes": "4000000"}
GROUP_SETTINGS = {"consumer.session.timeout.ms": "50000"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("kafka")
    with BrokerProcess(apache_kafka(heap=("-Xmx384M",)), directory, BROKER_SETTINGS) as process:
        yield process


@pytest.fixture(scope="module")
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    wire = Wire(broker.port)
    wire.create_topic("settled", TOPIC_SETTINGS)
    wire.create_topic("plain", {})
    wire.alter(4, "", CLUSTER_LAYER)
    wire.alter(4, "1", BROKER_LAYER)
    wire.alter(32, "g", GROUP_SETTINGS)
    settle(wire)
    yield wire
    wire.socket.close()


@pytest.fixture(scope="module")
def layers(broker: BrokerProcess) -> Layers:
    static = BrokerConfig.from_properties(broker.properties())
    # A cluster that is formatted with eligible leader replicas has this one from the start.
    cluster = {"min.insync.replicas": "1", **CLUSTER_LAYER}
    return Layers(static.originals, cluster, BROKER_LAYER)


def shown(result: DescribeConfigsResult) -> dict[str, tuple[object, ...]]:
    return {
        config.name: (
            config.value,
            config.config_source,
            config.is_sensitive,
            config.read_only,
            config.config_type,
            [(each.name, each.value, each.source) for each in config.synonyms],
        )
        for config in result.configs
    }


def ours(entries: list[Entry]) -> dict[str, tuple[object, ...]]:
    return {
        entry.name: (
            entry.value,
            entry.source,
            entry.is_sensitive,
            entry.read_only,
            entry.kind,
            [tuple(each) for each in entry.synonyms],
        )
        for entry in entries
    }


def settle(wire: Wire) -> None:
    """Wait until the broker has taken over its dynamic settings: they come with the metadata."""
    for _ in range(1000):
        entries = shown(wire.describe(4, "1"))
        if entries["log.retention.ms"][0] == BROKER_LAYER["log.retention.ms"]:
            return
    pytest.fail("the broker does not take over its dynamic settings")


def test_a_topic_is_described_as_kafka_does(wire: Wire, layers: Layers) -> None:
    effective = layers.effective()
    for name, overrides in (("plain", {}), ("settled", TOPIC_SETTINGS)):
        assert ours(describe_topic(layers, effective, overrides)) == shown(wire.describe(2, name))


def test_a_broker_is_described_as_kafka_does(wire: Wire, layers: Layers) -> None:
    effective = layers.effective()
    entries = describe_broker(layers, effective)
    theirs_too = [entry for entry in entries if not entry.name.startswith(OUR_OWN)]
    assert ours(theirs_too) == shown(wire.describe(4, "1"))
    assert ours(describe_cluster_defaults(layers, effective)) == shown(wire.describe(4, ""))


def test_a_group_is_described_as_kafka_does(wire: Wire, layers: Layers) -> None:
    entries = describe_group(layers, layers.effective(), GROUP_SETTINGS)
    assert ours(entries) == shown(wire.describe(32, "g"))
