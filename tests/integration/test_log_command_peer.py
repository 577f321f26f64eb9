"""``ottla log`` and ``topics describe`` on what Apache Kafka has written, against its own tools.

A broker writes plain, transactional, compacted and tiered topics; its remote store keeps nothing,
but its ``__remote_log_metadata`` tells of every segment.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.waiting import eventually
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.cli.main import cli

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

SEGMENT = {"segment.bytes": "1048576", "retention.ms": "-1"}
TOPICS = {
    "plain": {},
    "transactions": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "tiered": {"remote.storage.enable": "true", "local.retention.bytes": "1"},
}
HORIZON = re.compile(r"deleteHorizonMs: (?:OptionalLong\[)?(\d+)")


class Kafka(NamedTuple):
    process: BrokerProcess
    described: dict[str, Any]
    """What ``ottla topics describe`` said while it ran."""
    segments: dict[str, Any]
    """And ``ottla log segments tiered``."""
    verified: dict[str, Any]
    """And ``ottla log verify tiered``."""
    log_dirs: dict[str, int]
    """What kafka-log-dirs said, by partition."""


def run(*words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*words, "--json"], prog_name="ottla")
    assert result.exit_code == code, (result.output, result.exception)
    content = json.loads(result.stdout)
    assert isinstance(content, dict)
    return content


def produce(servers: str) -> None:
    plain = Producer({"bootstrap.servers": servers, "linger.ms": 1, "batch.size": 20_000})
    for number in range(4000):
        for topic in ("plain", "tiered"):
            plain.produce(topic, str(number).ljust(900), str(number))
        value = None if number % 7 == 0 else str(number).ljust(900)
        plain.produce("compacted", value, str(number % 500))
        plain.poll(0)
    assert plain.flush(60) == 0
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
    transactional.init_transactions(60)
    for number in range(6):
        transactional.begin_transaction()
        for _ in range(400):
            transactional.produce("transactions", bytes(900))
        assert transactional.flush(60) == 0
        if number % 2:
            transactional.abort_transaction(60)
        else:
            transactional.commit_transaction(60)


def log_dirs(servers: str) -> dict[str, int]:
    answer = peer.run_tool(
        "kafka-log-dirs", "--bootstrap-server", servers, "--describe", "--topic-list", "plain"
    )
    (line,) = [line for line in answer.stdout.splitlines() if line.startswith("{")]
    return {
        each["partition"]: each["size"]
        for broker in json.loads(line)["brokers"]
        for log_dir in broker["logDirs"]
        for each in log_dir["partitions"]
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    classes = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("DiscardingStorage.java")
    libraries = f"{peer.home()}/libs/*"
    subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(source)], check=True)
    settings = {
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "DiscardingStorage",
        "remote.log.storage.manager.class.path": f"{classes}/",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "500",
    }
    process = BrokerProcess(
        apache_kafka(heap=("-Xmx512M",)), tmp_path_factory.mktemp("kafka"), settings
    )
    with process:
        servers = process.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [
            NewTopic(name, num_partitions=1, replication_factor=1, config={**SEGMENT, **config})
            for name, config in TOPICS.items()
        ]
        for made in admin.create_topics(topics).values():
            made.result(60)
        produce(servers)

        def described() -> dict[str, Any]:
            found = run("topics", "describe", "-b", servers)["topics"]
            return {each["name"]: each for each in found}

        def segments() -> dict[str, Any]:
            return run("log", "segments", "tiered", "-b", servers)

        checkpoint = process.log_directory / "cleaner-offset-checkpoint"
        eventually(lambda: "compacted 0" in checkpoint.read_text(), seconds=90)
        eventually(lambda: described()["tiered"]["local_size"] < 1_100_000, seconds=90)
        verified = run("log", "verify", "tiered", "-b", servers, code=1)
        yield Kafka(process, described(), segments(), verified, log_dirs(servers))


@pytest.fixture(scope="module")
def stopped(kafka: Kafka) -> Path:
    """The log directory of the broker, which has ended cleanly."""
    kafka.process.stop()
    return kafka.process.log_directory


def test_sizes_are_those_of_kafka_log_dirs(kafka: Kafka) -> None:
    plain = kafka.described["plain"]
    assert kafka.log_dirs == {"plain-0": plain["local_size"]}
    assert plain["remote_size"] is None


def test_remote_sizes_come_from_its_metadata_topic(kafka: Kafka) -> None:
    tiered = kafka.described["tiered"]
    (partition,) = kafka.segments["partitions"]
    assert tiered["remote_size"] == partition["remote_size"] > 2 * 1_000_000
    whole = tiered["remote_size"] + tiered["local_size"]
    assert whole == pytest.approx(kafka.described["plain"]["local_size"], rel=0.02)


def test_remote_segments_are_shown_without_a_gap(kafka: Kafka) -> None:
    rows = [row for row in kafka.segments["segments"] if row["tier"] != "local"]
    assert {row["remote_state"] for row in rows} == {"COPY_SEGMENT_FINISHED"}
    assert rows[0]["base_offset"] == 0
    for before, after in pairwise(rows):
        assert after["base_offset"] == before["last_offset"] + 1
    (partition,) = kafka.segments["partitions"]
    assert partition["log_end_offset"] == 4000
    assert partition["local_log_start_offset"] == rows[-1]["last_offset"] + 1


def test_what_cannot_be_read_is_not_called_sound(kafka: Kafka) -> None:
    (error,) = kafka.verified["errors"]
    assert error["error"] == "NO_REMOTE_STORE"
    assert kafka.verified["problems"] == []


def test_nothing_is_wrong_with_what_kafka_writes(stopped: Path) -> None:
    content = run("log", "verify", str(stopped))
    assert content["problems"] == []
    assert {row["log"] for row in content["logs"]} >= {f"{topic}-0" for topic in TOPICS}


@pytest.mark.parametrize("topic", ["plain", "transactions", "compacted"])
def test_counts_are_those_of_kafka_dump_log(stopped: Path, topic: str) -> None:
    content = run("log", "segments", topic, "--deep", "--log-dir", str(stopped))
    assert content["segments"]
    for row in content["segments"]:
        path = stopped / f"{topic}-0" / f"{row['base_offset']:020d}.log"
        answer = peer.run_tool("kafka-dump-log", "--deep-iteration", "--files", str(path))
        lines = answer.stdout.splitlines()
        batches = [line for line in lines if line.startswith("baseOffset: ")]
        records = [line for line in lines if line.startswith("| offset: ")]
        tombstones = [
            line for line in records if "valueSize: -1" in line and "endTxnMarker" not in line
        ]
        horizons = [int(found[1]) for line in batches if (found := HORIZON.search(line))]
        assert (row["batches"], row["records"], row["tombstones"]) == (
            len(batches),
            len(records),
            len(tombstones),
        )
        assert row["delete_horizon_ms"] == min(horizons, default=None)


def test_the_cleaned_part_is_clean(stopped: Path) -> None:
    content = run("log", "segments", "compacted", "--log-dir", str(stopped))
    (partition,) = content["partitions"]
    assert partition["clean_offset"] > 0
    assert 0 <= partition["dirty_ratio"] < 1
    assert content["segments"][0]["cleaning"] == "clean"
