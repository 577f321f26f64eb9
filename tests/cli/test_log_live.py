"""``ottla log`` and sizes of topics against a running broker, whose files lie on this machine."""

import itertools
from pathlib import Path

import pytest
from tests.cli.command import Command

from ottla.client.producer import Producer
from ottla.testing.broker import Broker

NUMBERS = itertools.count()
SEGMENT = 1 << 20


@pytest.fixture
def topic(ottla: Command) -> str:
    """Two partitions; the first has three segments, the second nothing."""
    name = f"logs-{next(NUMBERS)}"
    ottla("topics", "create", name, "-p", "2", "-c", f"segment.bytes={SEGMENT}")
    with Producer(ottla.bootstrap) as producer:
        for number in range(30):
            producer.send(name, bytes(100_000), b"%d" % number, partition=0)
            producer.flush()
    return name


def test_the_segments_of_a_running_broker(ottla: Command, topic: str) -> None:
    content = ottla.document("log", "segments", topic, "--deep")
    rows = content["segments"]
    assert [(row["partition"], row["tier"]) for row in rows] == [(0, "local")] * 3 + [(1, "local")]
    assert sum(row["records"] for row in rows) == 30
    first, second = content["partitions"]
    assert (first["log_start_offset"], first["log_end_offset"]) == (0, 30)
    assert first["local_size"] == sum(row["size"] for row in rows)
    assert (second["log_end_offset"], second["local_size"]) == (0, 0)
    assert first["dirty_ratio"] is None
    assert content["problems"] == []


def test_a_running_broker_is_verified_and_dumped(ottla: Command, topic: str) -> None:
    (row,) = ottla.document("log", "verify", f"{topic}:0")["logs"]
    assert (row["segments"], row["records"], row["problems"]) == (3, 30, 0)
    files = ottla.document("log", "dump", f"{topic}-0", "-o", "29")["files"]
    (file,) = files.values()
    assert [batch["base_offset"] for batch in file["batches"]] == [29]


def test_a_compacted_topic_that_was_never_cleaned_is_all_dirty(ottla: Command) -> None:
    name = f"logs-{next(NUMBERS)}"
    own = (f"segment.bytes={SEGMENT}", "cleanup.policy=compact", "min.cleanable.dirty.ratio=1")
    ottla("topics", "create", name, *(word for each in own for word in ("-c", each)))
    with Producer(ottla.bootstrap) as producer:
        for number in range(15):
            producer.send(name, bytes(100_000), b"%d" % number, partition=0)
            producer.flush()
    content = ottla.document("log", "segments", name)
    (partition,) = content["partitions"]
    assert partition["dirty_ratio"] == 1.0
    assert {row["cleaning"] for row in content["segments"]} == {"dirty"}


def test_a_topic_or_partition_that_is_not_there_is_said(ottla: Command, topic: str) -> None:
    for word in ("no-such-topic", f"{topic}:7"):
        content = ottla.document("log", "segments", word, code=1)
        assert content["errors"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_sizes_are_described(ottla: Command, topic: str) -> None:
    (described,) = ottla.document("topics", "describe", topic)["topics"]
    first, second = described["partitions"]
    assert 30 * 100_000 < first["local_size"] < 31 * 100_000
    assert first["replica_sizes"] == {"1": first["local_size"]}
    assert second["local_size"] == 0
    assert described["local_size"] == first["local_size"]
    assert described["remote_size"] is None
    text, _ = ottla("topics", "describe", topic)
    assert f"local size {first['local_size']}" in text
    assert "REMOTE-SIZE" not in text


def test_files_that_are_not_on_this_machine_are_not_called_sound() -> None:
    name = f"logs-{next(NUMBERS)}"
    with Broker() as broker:
        ottla = Command(broker.bootstrap_servers)
        ottla("topics", "create", name)
        # As on another machine: nothing here says that the directory is this broker's.
        (Path(broker.directory) / "meta.properties").unlink()
        content = ottla.document("log", "verify", name, code=1)
        assert content["errors"][0]["error"] == "NOT_HERE"
        text, complaint = ottla("log", "segments", name)
        assert "its files do not lie on this machine" in complaint
        assert text.splitlines()[0].startswith("TOPIC  ")


def test_a_tiered_topic_of_which_nothing_is_remote_yet(tmp_path: Path) -> None:
    name = f"logs-{next(NUMBERS)}"
    settings = {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.store.url": f"file://{tmp_path}/remote",
    }
    with Broker(config=settings) as broker:
        ottla = Command(broker.bootstrap_servers)
        ottla("topics", "create", name, "-c", "remote.storage.enable=true")
        (described,) = ottla.document("topics", "describe", name)["topics"]
        assert (described["local_size"], described["remote_size"]) == (0, 0)
        (partition,) = ottla.document("log", "segments", name)["partitions"]
        assert partition["remote_size"] == 0
        assert ottla.document("log", "verify", name)["problems"] == []
