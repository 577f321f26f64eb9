"""``ottla log`` and ``topics describe`` with a running broker whose older segments are remote."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, ottla

from ottla.cli.main import cli

RECORDS = 4000
SIZE = 900


class Tiered(NamedTuple):
    broker: BrokerProcess
    store: Path

    @property
    def config(self) -> str:
        return str(self.broker.properties_file)


def run(*words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*words, "--json"], prog_name="ottla")
    assert result.exit_code == code, (result.output, result.exception)
    content = json.loads(result.stdout)
    assert isinstance(content, dict)
    return content


def produce(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "batch.size": 20_000})
    for number in range(RECORDS):
        value = None if number % 10 == 0 else str(number).ljust(SIZE)
        producer.produce(topic, value, str(number))
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    """A broker with a topic of which all but the active segment is remote only."""
    store = tmp_path_factory.mktemp("store") / "remote"
    settings = {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.store.url": f"file://{store}",
        "remote.log.manager.task.interval.ms": "100",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "100",
    }
    broker = BrokerProcess(ottla(), tmp_path_factory.mktemp("broker"), settings)
    with broker:
        servers = broker.bootstrap_servers
        own = ("segment.bytes=1048576", "remote.storage.enable=true", "local.retention.bytes=1")
        words = [word for each in own for word in ("-c", each)]
        run("topics", "create", "tiered", "-p", "1", *words, "-b", servers)
        produce(servers, "tiered")
        eventually(lambda: is_remote(servers))
        yield Tiered(broker, store)


def is_remote(servers: str) -> bool:
    (topic,) = run("topics", "describe", "tiered", "-b", servers)["topics"]
    local, remote = topic["local_size"], topic["remote_size"]
    return bool(local < 1_100_000 and remote + local > RECORDS * SIZE * 0.8)


@contextmanager
def stopped(tiered: Tiered) -> Iterator[None]:
    """Without the broker for a while; the tests that come after find it as it was."""
    tiered.broker.stop()
    try:
        yield
    finally:
        tiered.broker.start()
        eventually(lambda: is_remote(tiered.broker.bootstrap_servers))


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """A bit of the file is another for a while."""
    sound = path.read_bytes()
    data = bytearray(sound)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(sound)


def test_local_and_remote_size_are_described(tiered: Tiered) -> None:
    servers = tiered.broker.bootstrap_servers
    (topic,) = run("topics", "describe", "tiered", "-b", servers)["topics"]
    stored = sum(path.stat().st_size for path in tiered.store.rglob("*.log"))
    assert topic["remote_size"] == topic["partitions"][0]["remote_size"] == stored
    directory = tiered.broker.log_directory / "tiered-0"
    assert topic["local_size"] == sum(path.stat().st_size for path in directory.glob("*.log"))
    text = CliRunner().invoke(cli, ["topics", "describe", "tiered", "-b", servers]).stdout
    assert f"local size {topic['local_size']}, remote size {stored}" in text
    assert "REMOTE-SIZE" in text


def test_segments_of_both_tiers_are_shown(tiered: Tiered) -> None:
    servers = tiered.broker.bootstrap_servers
    content = run("log", "segments", "tiered", "--deep", "-b", servers)
    rows = content["segments"]
    remote = [row for row in rows if row["tier"] == "remote"]
    assert len(remote) >= 3
    assert {row["remote_state"] for row in remote} == {"COPY_SEGMENT_FINISHED"}
    assert sum(row["records"] for row in rows) == RECORDS
    assert sum(row["tombstones"] for row in rows) == RECORDS // 10
    assert all(index["sound"] for row in remote for index in row["indexes"].values())
    (partition,) = content["partitions"]
    assert partition["log_start_offset"] == 0
    assert partition["local_log_start_offset"] == remote[-1]["last_offset"] + 1
    assert partition["log_end_offset"] == RECORDS
    assert content["problems"] == []


def test_both_tiers_are_sound_and_dumped(tiered: Tiered) -> None:
    servers = tiered.broker.bootstrap_servers
    (row,) = run("log", "verify", "tiered", "-b", servers)["logs"]
    assert row["remote_segments"] >= 3
    assert (row["records"], row["problems"]) == (RECORDS, 0)
    files = run("log", "dump", "tiered:0", "-r", "-b", servers)["files"]
    offsets = [record["offset"] for file in files.values() for record in file["records"]]
    assert offsets == list(range(RECORDS))


def test_the_same_is_seen_without_a_broker_and_damage_too(tiered: Tiered) -> None:
    servers = tiered.broker.bootstrap_servers
    live = run("log", "segments", "tiered", "-b", servers)
    where = ("-c", tiered.config)
    with stopped(tiered):
        offline = run("log", "segments", "tiered", *where)
        assert run("log", "verify", "tiered", *where)["problems"] == []
        path = sorted(tiered.store.rglob("*.log"))[1]
        with damaged(path):
            (problem,) = run("log", "verify", "tiered", *where, code=1)["problems"]
    before, after = (
        [(row["tier"], row["base_offset"], row["last_offset"], row["size"]) for row in each]
        for each in (live["segments"], offline["segments"])
    )
    assert before == after
    assert path.name in problem["file"]
    assert "damaged" in problem["problem"]
