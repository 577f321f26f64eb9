"""Apache Kafka's programs as they lie in the peer's directory, and how a JVM is started with one.

The classes are those that Apache's own scripts start, with the flags that those scripts give. Each
JVM stays in the process that starts it: nothing goes on after the tests.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from tools.kafka_peer.setup import HERE, VERSION, directory, is_present

# The names of Apache's scripts, and the class that each of them starts.
TOOLS: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-server-start": "kafka.Kafka",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

# What Apache's scripts give to every JVM.
JVM_FLAGS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# A tool lives for a second or two: little of it is worth the work of the second compiler.
SHORT_LIVED: Final = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def home() -> Path:
    """The peer's directory, or an error that says how to get it."""
    found = directory()
    if not is_present(found):
        raise FileNotFoundError(
            f"Apache Kafka {VERSION} is not in {found}: run `python tools/kafka_peer/setup.py`"
        )
    return found


def java(main_class: str, *args: str, flags: tuple[str, ...], logging: str) -> list[str]:
    """The command that starts ``main_class`` with all of the peer's jars."""
    return [
        "java",
        *flags,
        f"-Dlog4j2.configurationFile={HERE / 'config' / logging}",
        "-cp",
        f"{home() / 'libs'}/*",
        main_class,
        *args,
    ]


def tool_command(tool: str, *args: str, flags: tuple[str, ...] = SHORT_LIVED) -> list[str]:
    return java(TOOLS[tool], *args, flags=flags, logging="tools-log4j2.yaml")


def environment() -> dict[str, str]:
    """Ours without what would change a JVM behind our back, and with plain output."""
    changing = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in changing}
    return {**kept, "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def run_tool(
    tool: str,
    *args: str,
    stdin: str = "",
    timeout: float = 90,
    flags: tuple[str, ...] = SHORT_LIVED,
) -> "subprocess.CompletedProcess[str]":
    """Run one of :data:`TOOLS` to its end; its answer, its complaints and its exit code."""
    return subprocess.run(
        tool_command(tool, *args, flags=flags),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment(),
    )
