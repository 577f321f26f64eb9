"""Apache Kafka 4.3.1 reads what we write, and we what it writes: log, snapshots, formatting."""

from pathlib import Path

import pytest
from tests.controller.nodes import Node
from tests.raft.quorums import DIRECTORY, LOG_DIR, settings
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka
from tools.kafka_peer.peer import run_tool

from ottla.common.chance import Chance
from ottla.config.broker import BrokerConfig
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.format import format_storage
from ottla.simulation.scheduler import EPOCH_MS
from ottla.storage.files import OsFilesystem
from ottla.testing.files import MemoryFilesystem

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
CLUSTER_ID = "o7UYq8CURbml9Mwn19juTQ"
SHELL_TRIES = 10
QUIET = settings(metadata_max_idle_interval_ms="0")


def to_disk(filesystem: MemoryFilesystem, source: str, target: Path) -> None:
    """Copy a directory of a disk in memory to a real one."""
    target.mkdir(parents=True, exist_ok=True)
    for name in filesystem.list_directory(source):
        if filesystem.is_directory(f"{source}/{name}"):
            to_disk(filesystem, f"{source}/{name}", target / name)
        else:
            (target / name).write_bytes(filesystem.read(f"{source}/{name}"))


def to_memory(source: Path, filesystem: MemoryFilesystem, target: str) -> None:
    """Copy what a controller needs of a real log directory."""
    filesystem.make_directory(target)
    for path in source.iterdir():
        if path.is_file():
            filesystem.write(f"{target}/{path.name}", path.read_bytes())
        elif path.name == "__cluster_metadata-0":
            to_memory(path, filesystem, f"{target}/{path.name}")


def formatted() -> MemoryFilesystem:
    filesystem = MemoryFilesystem()
    format_storage(
        filesystem, QUIET, CLUSTER_ID, standalone=True, chance=Chance(1), now_ms=EPOCH_MS
    )
    return filesystem


def alter(node: Node, kind: int, name: str, key: str, value: str) -> None:
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = node.wait(node.driver.submit(request)).responses
    assert answer.error_code == 0, answer


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The metadata directory of a controller of ours that has worked, with a snapshot."""
    filesystem = formatted()
    node = Node(filesystem, config=QUIET, cluster_id=CLUSTER_ID).start()
    node.start_broker()
    node.wait(node.create("first", 3))
    node.wait(node.create("second", 2000))
    alter(node, 2, "first", "retention.ms", "4711")
    alter(node, 4, "", "log.retention.ms", "4712")
    node.wait(node.driver.take_snapshot())
    node.wait(node.create("third"))
    node.wait(node.driver.stop())
    directory = tmp_path_factory.mktemp("written")
    to_disk(filesystem, DIRECTORY, directory)
    return directory


def dump(path: Path) -> str:
    done = run_tool(
        "kafka-dump-log",
        "--cluster-metadata-decoder",
        "--skip-record-metadata",
        "--files",
        str(path),
    )
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    for trouble in ("xception", "rror", "isvalid: false", "Could not", "mismatch"):
        assert trouble not in output
    return done.stdout


def test_kafka_dump_log_decodes_our_log(written: Path) -> None:
    output = dump(written / "00000000000000000000.log")
    assert output.count('"type":"TOPIC_RECORD"') == 3
    assert output.count('"type":"PARTITION_RECORD"') == 2004
    assert '"name":"Bootstrap records"' in output
    assert '"name":"retention.ms","value":"4711"' in output


def test_kafka_dump_log_decodes_our_snapshots(written: Path) -> None:
    first, latest = sorted(written.glob("*.checkpoint"))
    dump(first)
    output = dump(latest)
    assert output.count('"type":"TOPIC_RECORD"') == 2
    assert output.count('"type":"PARTITION_RECORD"') == 2003
    assert '"type":"REGISTER_BROKER_RECORD","version":4' in output


def shell(snapshot: Path, *commands: str) -> list[str]:
    """What the shell shows; it takes commands before it has loaded, and then shows nothing."""
    words: list[str] = []
    for _ in range(SHELL_TRIES):
        done = run_tool(
            "kafka-metadata-shell", "--snapshot", str(snapshot), stdin="\n".join(commands) + "\n"
        )
        assert done.returncode == 0, done.stderr
        words = done.stdout.partition("]\n")[2].replace(">>", " ").split()
        if "first" in words:
            break
    return words


def test_kafka_metadata_shell_shows_our_snapshot(written: Path) -> None:
    latest = max(written.glob("*.checkpoint"))
    shown = shell(
        latest,
        "pwd",
        "ls /image/topics/byName",
        "cat /image/features/metadataVersion",
        "ls /image/configs",
    )
    assert shown == ["/", "first", "second", "Optional[4.3-IV0]", "BROKER", "TOPIC:first"]


def kafka(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(apache_kafka(heap=("-Xmx512M",)), tmp_path / "kafka", {})


def tool(broker: BrokerProcess, name: str, *args: str) -> str:
    done = run_tool(name, "--bootstrap-server", broker.bootstrap_servers, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load(directory: Path) -> Node:
    """Our controller on a copy of a directory that Apache Kafka has left."""
    filesystem = MemoryFilesystem()
    to_memory(directory, filesystem, LOG_DIR)
    return Node(filesystem, config=QUIET, cluster_id=CLUSTER_ID)


def test_apache_and_we_take_turns_on_a_directory_that_we_have_formatted(tmp_path: Path) -> None:
    broker = kafka(tmp_path)
    broker.write_properties()
    config = BrokerConfig.from_properties(broker.properties())
    format_storage(OsFilesystem(), config, CLUSTER_ID, standalone=True, chance=Chance(1), now_ms=1)
    broker.start()
    tool(broker, "kafka-topics", "--create", "--topic", "theirs", "--partitions", "3",
         "--config", "retention.ms=77")  # fmt: skip
    tool(broker, "kafka-configs", "--alter", "--entity-type", "brokers", "--entity-default",
         "--add-config", "log.retention.ms=88")  # fmt: skip
    broker.stop()

    node = load(broker.log_directory).start()
    image = node.metadata.image
    assert len(image.topics.by_name["theirs"].partitions) == 3
    assert image.configs_of(2, "theirs") == {"retention.ms": "77"}
    assert image.configs_of(4, "")["log.retention.ms"] == "88"
    assert image.brokers[1].fenced
    node.start_broker(previous_epoch=image.brokers[1].epoch)
    partition = node.metadata.image.topics.by_name["theirs"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 0)
    node.wait(node.create("ours", 2))
    node.wait(node.driver.take_snapshot())
    node.wait(node.driver.stop())
    for name in node.filesystem.list_directory(DIRECTORY):
        path = broker.log_directory / "__cluster_metadata-0" / name
        path.unlink(missing_ok=True)
        path.write_bytes(node.filesystem.read(f"{DIRECTORY}/{name}"))

    broker.start()
    try:
        assert tool(broker, "kafka-topics", "--list").split() == ["ours", "theirs"]
        described = tool(broker, "kafka-topics", "--describe", "--topic", "ours")
        assert "PartitionCount: 2" in described
    finally:
        broker.stop()


def test_we_start_on_what_kafka_storage_has_formatted(tmp_path: Path) -> None:
    broker = kafka(tmp_path)
    broker.cluster_id = CLUSTER_ID
    broker.format()
    node = load(broker.log_directory).start()
    node.start_broker()
    assert node.wait(node.create("t")).topics[0].error_code == 0
    assert node.metadata.image.features.metadata_version == 30
