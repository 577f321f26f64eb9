"""Apache Kafka and we read the same of a log that holds batches of magic 0, 1 and 2.

Kafka 4.3.1 writes neither of the old formats, but reads them: it is given a log of ours after an
unclean stop, and what it recovers, serves and finds by time is what we recover, serve and find.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.storage import logs, old_logs
from tests.storage.old_logs import Piece, Shape
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.common.chance import Chance
from ottla.config.topic import TopicConfig
from ottla.storage.files import OsFilesystem

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

TOPIC = "old"
CONFIG = TopicConfig({"retention.ms": "-1"})
BATCHES = 300
GAP = 4
TIMES = [logs.NOW + step for step in range(-10, BATCHES + 20, 17)]


def drawn() -> list[Piece]:
    """Every magic with every codec that it has, and a gap, as Kafka leaves when it truncates."""
    chance = Chance(18)
    shapes = []
    for number in range(BATCHES):
        time = logs.NOW + number - chance.below(30)
        shapes.append(
            Shape(
                chance.below(3),
                chance.below(4),
                [
                    (b"%d" % chance.below(50), chance.bytes(chance.below(600)), time + each)
                    for each in range(1 + chance.below(5))
                ],
                time if chance.below(3) == 0 else None,
            )
        )
    first = old_logs.pieces(shapes[: BATCHES // 2])
    return first + old_logs.pieces(shapes[BATCHES // 2 :], first[-1].last_offset + 1 + GAP)


Row = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key and value."""


class Served(NamedTuple):
    """What a client of Kafka got, and the directory as Kafka left it."""

    records: list[Row]
    by_time: list[int]
    directory: Path


PIECES = drawn()
DATA = b"".join(piece.data for piece in PIECES)


def put_into(partition: Path) -> None:
    """In the place of what a broker has: the batches and half of another, without indexes."""
    for path in partition.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    (partition / f"{0:020d}.log").write_bytes(DATA + PIECES[0].data[:20])
    (partition.parent / ".kafka_cleanshutdown").unlink()


def consume(broker: BrokerProcess) -> tuple[list[Row], list[int]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "old"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Row] = []
    while len(found) < len(old_logs.all_records(PIECES)):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        offset = message.offset()
        assert offset is not None
        found.append((offset, message.timestamp()[1], message.key(), message.value()))
    asked = [TopicPartition(TOPIC, 0, time) for time in TIMES]
    by_time = [consumer.offsets_for_times([each], 60)[0].offset for each in asked]
    consumer.close()
    return found, by_time


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    broker = BrokerProcess(apache_kafka(heap=("-Xmx512M",)), tmp_path_factory.mktemp("kafka"))
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        made = admin.create_topics([NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"})])
        made[TOPIC].result(60)
        broker.stop()
        put_into(Path(broker.log_directory) / f"{TOPIC}-0")
        broker.start()
        records, by_time = consume(broker)
    finally:
        broker.stop()
    return Served(records, by_time, Path(broker.log_directory) / f"{TOPIC}-0")


def test_kafka_serves_the_records_that_we_read(served: Served, tmp_path: Path) -> None:
    recovered = tmp_path / "old-0"
    recovered.mkdir()
    (recovered / f"{0:020d}.log").write_bytes(DATA + PIECES[0].data[:20])
    log = logs.open_log(OsFilesystem(), CONFIG, directory=str(recovered), clean=False)
    ours = [
        (record.offset, record.timestamp, record.key, record.value)
        for record in logs.read_all(log, max_bytes=1 << 20)
    ]
    # librdkafka says 0 for "no timestamp".
    assert [(o, max(t, 0), k, v) for o, t, k, v in ours] == [
        (o, max(t, 0), k, v) for o, t, k, v in served.records
    ]
    log.close(logs.NOW)
    for suffix in (".log", ".index", ".timeindex"):
        name = f"{0:020d}{suffix}"
        assert (recovered / name).read_bytes() == (served.directory / name).read_bytes(), name
    assert (recovered / f"{0:020d}.log").read_bytes() == DATA


def test_kafka_finds_the_offsets_by_time_that_we_find(served: Served, tmp_path: Path) -> None:
    """In the directory that Kafka has left cleanly, by its own indexes, which stay as they are."""
    directory = Path(shutil.copytree(served.directory, tmp_path / "old-0"))
    (directory / "partition.metadata").unlink()
    before = {path.name: path.read_bytes() for path in directory.glob("*index")}
    log = logs.open_log(OsFilesystem(), CONFIG, directory=str(directory), recovery_point=1 << 40)
    end = log.log_end_offset
    found = [logs.offset_for_timestamp(log, time) for time in TIMES]
    assert [-1 if each is None else each.offset for each in found] == served.by_time
    assert set(served.by_time) - {-1}
    assert end == PIECES[-1].last_offset + 1
    log.close(logs.NOW)
    assert {path.name: path.read_bytes() for path in directory.glob("*index")} == before


def test_kafka_dump_log_agrees_with_our_builders(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(DATA)
    answer = peer.run_tool("kafka-dump-log", "--deep-iteration", "--files", str(path))
    assert answer.returncode == 0, answer.stderr
    assert "isvalid: false" not in answer.stdout
    assert answer.stdout.count("| offset: ") == len(old_logs.all_records(PIECES))
