"""Apache Kafka's own files and tools against ours.

A real broker writes two topics over several segments, one by an idempotent producer, one by a
transactional one that also aborts. It is stopped cleanly, started again, given more, and killed.
Its directories are opened with our logs; its batches, appended to our logs one by one, must give
the same files byte by byte; its tools must find nothing wrong with ours; and it must serve what we
have appended to its directory.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.common.chance import Chance
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.file_records import bodies
from ottla.storage.files import OsFilesystem
from ottla.storage.log import Log
from ottla.storage.manager import LogManager

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

SETTINGS = {"segment.bytes": "1048576", "retention.ms": "-1"}
CONFIG = TopicConfig(SETTINGS)
PLAIN = TopicPartition("plain", 0)
TRANSACTIONS = TopicPartition("transactions", 0)
RECORDS = 6000
ROUNDS = 6
PER_ROUND = 500


class Directories(NamedTuple):
    """Copies of the broker's log directory."""

    clean: Path
    killed: Path
    live: Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> BrokerProcess:
    program = apache_kafka(heap=("-Xmx512M",))
    return BrokerProcess(program, tmp_path_factory.mktemp("kafka"))


def produce_plain(broker: BrokerProcess, first: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.size": 20_000,
        }
    )
    for number in range(first, first + RECORDS):
        producer.produce("plain", value=str(number).ljust(50 + number % 900), key=str(number))
        producer.poll(0)
    assert producer.flush(60) == 0


def produce_transactions(broker: BrokerProcess) -> None:
    """Every second transaction is aborted."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "t",
            "batch.size": 20_000,
        }
    )
    producer.init_transactions(60)
    for number in range(ROUNDS):
        producer.begin_transaction()
        for record in range(PER_ROUND):
            producer.produce("transactions", value=f"{number} {record}".ljust(1000))
        assert producer.flush(60) == 0
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def create_topics(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [
        NewTopic(name, num_partitions=1, replication_factor=1, config=SETTINGS)
        for name in ("plain", "transactions")
    ]
    for made in admin.create_topics(topics).values():
        made.result(60)


@pytest.fixture(scope="module")
def directories(
    kafka: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Directories]:
    root = tmp_path_factory.mktemp("copies")
    kafka.start()
    try:
        create_topics(kafka)
        produce_plain(kafka, 0)
        produce_transactions(kafka)
        kafka.stop()
        shutil.copytree(kafka.log_directory, root / "clean")
        kafka.start()
        produce_plain(kafka, RECORDS)
        kafka.kill()
        shutil.copytree(kafka.log_directory, root / "killed")
        yield Directories(root / "clean", root / "killed", kafka.log_directory)
    finally:
        kafka.stop()


def copy_of(directory: Path, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def manager_of(directory: Path) -> LogManager:
    manager = LogManager(
        OsFilesystem(),
        [str(directory)],
        clock=ManualScheduler(logs.NOW),
        chance=Chance(1),
        config_for=lambda _topic: CONFIG,
    )
    manager.start()
    return manager


def check_plain(log: Log, count: int) -> None:
    records = logs.read_all(log, max_bytes=1 << 20)
    assert [record.offset for record in records] == list(range(count))
    assert [int(record.value or b"") for record in records] == list(range(count))


@pytest.mark.parametrize(("state", "count"), [("clean", RECORDS), ("killed", 2 * RECORDS)])
def test_we_open_what_a_kafka_broker_has_left(
    directories: Directories, tmp_path: Path, state: str, count: int
) -> None:
    directory = copy_of(getattr(directories, state), tmp_path)
    manager = manager_of(directory)
    assert manager.directories[0].was_clean == (state == "clean")
    check_plain(manager.logs[PLAIN], count)
    log = manager.logs[TRANSACTIONS]
    assert len(log.segments) > 2
    assert len(logs.read_all(log, max_bytes=1 << 20)) == ROUNDS * (PER_ROUND + 1)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [first for _, first in aborted] == [
        number * (PER_ROUND + 1) for number in range(ROUNDS) if number % 2
    ]
    log.set_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    assert "__consumer_offsets" not in {tp.topic for tp in manager.future_logs}
    manager.stop(broker_epoch=7)


@pytest.mark.parametrize("name", ["plain-0", "transactions-0"])
def test_the_same_batches_give_the_same_files(
    directories: Directories, tmp_path: Path, name: str
) -> None:
    theirs = directories.clean / name
    ours = tmp_path / name
    files = OsFilesystem()
    log = logs.open_log(files, CONFIG, directory=str(ours))
    for path in sorted(theirs.glob("*.log")):
        file = files.open(str(path))
        for _, data in bodies(file, 0, file.size()):
            log.append_as_follower(data, now_ms=logs.NOW)
        file.close()
    log.close(logs.NOW)
    names = {path.name for path in theirs.iterdir()}
    assert {path.name for path in ours.iterdir()} == names
    assert len([each for each in names if each.endswith(".log")]) > 2
    for each in sorted(names - {"partition.metadata"}):
        assert (ours / each).read_bytes() == (theirs / each).read_bytes(), each


@pytest.fixture(scope="module")
def our_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition that our broker has written as a leader, closed cleanly."""
    ours = tmp_path_factory.mktemp("ours") / "ours-0"
    log = logs.open_log(OsFilesystem(), CONFIG, directory=str(ours))
    chance = Chance(1)
    for number in range(4000):
        values = [chance.bytes(50 * (number % 9)) for _ in range(3)]
        data = logs.batch(
            values,
            producer_id=number % 3,
            producer_epoch=0,
            sequence=number // 3 * 3,
            codec=number % 5,
        )
        logs.append_batch(log, data, epoch=number // 1000)
    assert len(log.segments) > 2
    log.close(logs.NOW)
    return ours


@pytest.mark.parametrize(
    "option", ["--deep-iteration", "--verify-index-only", "--index-sanity-check"]
)
def test_kafka_dump_log_finds_nothing_wrong_with_our_files(our_files: Path, option: str) -> None:
    paths = [
        path for path in our_files.iterdir() if path.suffix in (".log", ".index", ".timeindex")
    ]
    answer = peer.run_tool("kafka-dump-log", option, "--files", ",".join(map(str, sorted(paths))))
    assert answer.returncode == 0, answer.stderr
    for complaint in (
        "mismatch",
        "corrupt",
        "Exception",
        "out of order",
        "not found",
        "isvalid: false",
    ):
        assert complaint not in answer.stdout + answer.stderr
    if option == "--deep-iteration":
        assert answer.stdout.count("| offset: ") == 12_000


def test_kafka_reads_our_producer_snapshots(our_files: Path) -> None:
    for path in sorted(our_files.glob("*.snapshot")):
        answer = peer.run_tool("kafka-dump-log", "--files", str(path))
        assert answer.returncode == 0
        assert answer.stdout.count("producerId: ") == 3


def append_to(directory: Path, first: int, *, clean: bool) -> None:
    """Append as the leader of Kafka's own partition, and stop cleanly or by a kill."""
    manager = manager_of(directory)
    log = manager.logs[PLAIN]
    assert log.log_end_offset == first
    for number in range(first, first + RECORDS):
        logs.append(log, str(number).encode().ljust(700), epoch=log.latest_epoch)
    if clean:
        manager.stop(broker_epoch=-1)
    else:
        manager.abandon()


def consume(broker: BrokerProcess, count: int) -> dict[str, list[bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"group-{count}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["plain", "transactions"])
    found: dict[str, list[bytes]] = {"plain": [], "transactions": []}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found[message.topic() or ""].append(message.value() or b"")
    consumer.close()
    return found


def test_kafka_serves_what_we_appended_to_its_directory(
    directories: Directories, kafka: BrokerProcess
) -> None:
    committed = ROUNDS // 2 * PER_ROUND
    for rounds, clean in ((3, True), (4, False)):
        append_to(directories.live, (rounds - 1) * RECORDS, clean=clean)
        kafka.start()
        try:
            found = consume(kafka, rounds * RECORDS + committed)
        finally:
            kafka.stop()
        assert [int(value) for value in found["plain"]] == list(range(rounds * RECORDS))
        assert all(int(value.split()[0]) % 2 == 0 for value in found["transactions"])
