"""Apache Kafka's cleaner and ours on the same log.

A real broker fills a compacted topic: puts and tombstones by an idempotent producer, transactions
that commit and abort, batches of every codec. Its cleaner does nothing yet. Then it is stopped, the
directory is copied, and each cleans its own copy. The segments must be equal byte for byte where
they are not compressed; Apache's tools must find nothing wrong with ours, its broker serve what we
have cleaned, and ours read what it has.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.storage import cleaning
from tests.storage.scheduler import ManualScheduler
from tests.storage.test_cleaning_crash_points import SETTINGS
from tools.kafka_peer import peer
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, ottla

from ottla.common.chance import Chance
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.cleaning.driver import CleanerDriver
from ottla.storage.cleaning.worker import BackgroundWorker
from ottla.storage.file_records import headers
from ottla.storage.files import OsFilesystem
from ottla.storage.manager import LogManager

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]

TOPICS = ("none", "transactions", "gzip", "snappy", "lz4", "zstd")
RETENTION_MS = 3_600_000
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "delete.retention.ms": str(RETENTION_MS),
    "min.cleanable.dirty.ratio": "1.0",
}
CONFIG = TopicConfig({**TOPIC, "min.cleanable.dirty.ratio": "0.0"})
BROKER = {"log.cleaner.backoff.ms": "100"}
KEYS = 500
RECORDS = 12_000


class Cleaned(NamedTuple):
    ours: Path
    theirs: Path
    tables: dict[str, dict[bytes, bytes]]
    """What a committed reader saw before."""


def produce(broker: BrokerProcess, topic: str, **settings: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 20_000,
            **settings,
        }
    )
    chance = Chance(1)
    transactional = "transactional.id" in settings
    if transactional:
        producer.init_transactions(60)
    for first in range(0, RECORDS, 400):
        if transactional:
            producer.begin_transaction()
        for number in range(first, first + 400):
            value = None if number % 11 == 5 else chance.bytes(10 + number % 350).hex()
            producer.produce(topic, key=f"key-{number * 7 % KEYS}", value=value)
            producer.poll(0)
        assert producer.flush(60) == 0
        if transactional and first // 400 % 3 == 1:
            producer.abort_transaction(60)
        elif transactional:
            producer.commit_transaction(60)


def consume(broker: BrokerProcess, topic: str) -> dict[bytes, bytes]:
    """The table as a committed reader sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "group",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    table: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            break
        key, value = message.key(), message.value()
        assert key is not None
        if value is None:
            table.pop(bytes(key), None)
        else:
            table[bytes(key)] = bytes(value)
    consumer.close()
    return table


def let_clean(broker: BrokerProcess) -> None:
    """Let Apache's cleaner begin, and wait until each log is clean up to its active segment."""
    for topic in TOPICS:
        answer = peer.run_tool(
            "kafka-configs",
            *("--bootstrap-server", broker.bootstrap_servers, "--alter", "--topic", topic),
            *("--add-config", "min.cleanable.dirty.ratio=0.0"),
        )
        assert answer.returncode == 0, answer.stderr
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    checkpoint = broker.log_directory / "cleaner-offset-checkpoint"
    for _ in range(300):
        lines = checkpoint.read_text().splitlines()[2:]
        clean = {line.split()[0]: int(line.split()[2]) for line in lines}
        active = {
            topic: max(
                int(path.stem) for path in (broker.log_directory / f"{topic}-0").glob("*.log")
            )
            for topic in TOPICS
        }
        if all(clean.get(topic) == active[topic] for topic in TOPICS):
            return
        admin.poll(0.2)
    pytest.fail(f"not all is clean: {checkpoint.read_text()}")


def horizon_of(directory: Path) -> int | None:
    """The delete horizon that a cleaning has set."""
    for path in sorted(directory.glob("*.log")):
        file = OsFilesystem().open(str(path))
        found = [
            header.delete_horizon_ms
            for _, header in headers(file, 0, path.stat().st_size)
            if header.delete_horizon_ms is not None
        ]
        file.close()
        if found:
            return found[0]
    return None


def clean_ours(directory: Path, now_ms: int) -> None:
    clock = ManualScheduler(now_ms - SETTINGS.backoff_ms)
    files = OsFilesystem()
    manager = LogManager(
        files,
        [str(directory)],
        clock=clock,
        chance=Chance(1),
        config_for=lambda topic: CONFIG if topic in TOPICS else TopicConfig({}),
    )
    manager.start()
    for log in manager.logs.values():
        log.set_high_watermark(log.log_end_offset)
    driver = CleanerDriver(
        manager,
        files,
        clock,
        SETTINGS._replace(threads=len(TOPICS), dedupe_buffer_size=1 << 24, io_buffer_size=1 << 19),
        lambda worker: BackgroundWorker(files, clock, worker),
    )
    driver.start()
    clock.advance(SETTINGS.backoff_ms / 1000 + 0.5)
    assert driver.stats.cleanings == len(TOPICS)
    assert driver.stats.bytes_written < driver.stats.bytes_read / 2
    manager.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> BrokerProcess:
    program = apache_kafka(heap=("-Xmx512M",))
    return BrokerProcess(program, tmp_path_factory.mktemp("kafka"), BROKER)


@pytest.fixture(scope="module")
def cleaned(kafka: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cleaned]:
    root = tmp_path_factory.mktemp("copies")
    kafka.start()
    try:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topics = [
            NewTopic(topic, num_partitions=1, replication_factor=1, config=TOPIC)
            for topic in TOPICS
        ]
        for made in admin.create_topics(topics).values():
            made.result(60)
        for topic in TOPICS:
            if topic == "transactions":
                produce(kafka, topic, **{"transactional.id": "t"})
            else:
                produce(kafka, topic, **{"compression.type": topic})
        tables = {topic: consume(kafka, topic) for topic in TOPICS}
        kafka.stop()
        shutil.copytree(kafka.log_directory, root / "ours")
        kafka.start()
        let_clean(kafka)
        kafka.stop()
        shutil.copytree(kafka.log_directory, root / "theirs")
        horizon = horizon_of(root / "theirs" / "none-0")
        assert horizon is not None
        clean_ours(root / "ours", horizon - RETENTION_MS)
        yield Cleaned(root / "ours", root / "theirs", tables)
    finally:
        kafka.stop()


@pytest.mark.parametrize("topic", TOPICS)
def test_both_leave_the_same_records(cleaned: Cleaned, topic: str) -> None:
    found = []
    for directory in (cleaned.ours, cleaned.theirs):
        batches = []
        for path in sorted((directory / f"{topic}-0").glob("*.log")):
            file = OsFilesystem().open(str(path))
            for _, header in headers(file, 0, path.stat().st_size):
                horizon = header.delete_horizon_ms is not None
                batches.append(
                    header._replace(
                        length=0, crc=0, base_timestamp=0 if horizon else header.base_timestamp
                    )
                )
            file.close()
        found.append(batches)
    assert found[0] == found[1]
    assert len(found[0]) > 5
    assert any(header.delete_horizon_ms is not None for header in found[0])


@pytest.mark.parametrize("topic", ["none"])
def test_segments_are_equal_byte_for_byte(cleaned: Cleaned, topic: str) -> None:
    ours, theirs = cleaned.ours / f"{topic}-0", cleaned.theirs / f"{topic}-0"
    names = sorted(path.name for path in theirs.glob("*.log"))
    assert sorted(path.name for path in ours.glob("*.log")) == names
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


def test_the_transaction_indexes_are_equal(cleaned: Cleaned) -> None:
    ours, theirs = cleaned.ours / "transactions-0", cleaned.theirs / "transactions-0"
    names = sorted(path.name for path in theirs.glob("*.txnindex"))
    assert sorted(path.name for path in ours.glob("*.txnindex")) == names
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


@pytest.mark.parametrize(
    "option", ["--deep-iteration", "--verify-index-only", "--index-sanity-check"]
)
@pytest.mark.parametrize("topic", TOPICS)
def test_kafka_dump_log_finds_nothing_wrong(cleaned: Cleaned, topic: str, option: str) -> None:
    directory = cleaned.ours / f"{topic}-0"
    paths = [
        path for path in directory.iterdir() if path.suffix in (".log", ".index", ".timeindex")
    ]
    answer = peer.run_tool("kafka-dump-log", option, "--files", ",".join(map(str, sorted(paths))))
    assert answer.returncode == 0, answer.stderr
    for complaint in ("mismatch", "corrupt", "Exception", "out of order", "isvalid: false"):
        assert complaint not in answer.stdout + answer.stderr


def test_we_read_what_kafka_has_cleaned_as_what_we_have(cleaned: Cleaned, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    for name in ("ours", "theirs"):
        directory = shutil.copytree(getattr(cleaned, name), tmp_path / name)
        manager = LogManager(
            OsFilesystem(),
            [str(directory)],
            clock=ManualScheduler(now_ms),
            chance=Chance(1),
            config_for=lambda _topic: CONFIG,
        )
        manager.start()
        for topic in TOPICS:
            log = manager.logs[TopicPartition(topic, 0)]
            log.set_high_watermark(log.log_end_offset)
            table = cleaning.newest(cleaning.read_committed(log, max_bytes=1 << 20))
            assert table == cleaned.tables[topic]
            assert manager.cleaner.clean_offset(log) == log.segments.active.base_offset
        manager.stop()


def test_kafka_serves_what_we_have_cleaned(cleaned: Cleaned, kafka: BrokerProcess) -> None:
    shutil.rmtree(kafka.log_directory)
    shutil.copytree(cleaned.ours, kafka.log_directory)
    kafka.start()
    try:
        for topic in TOPICS:
            assert consume(kafka, topic) == cleaned.tables[topic]
        produce(kafka, "none")
    finally:
        kafka.stop()


def test_a_record_without_a_key_is_refused_as_kafka_refuses_it(
    kafka: BrokerProcess, tmp_path: Path
) -> None:
    answers: list[KafkaError | None] = []
    for broker in (kafka, BrokerProcess(ottla(), tmp_path / "ottla")):
        broker.start()
        try:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            topic = NewTopic("keyless", num_partitions=1, replication_factor=1, config=TOPIC)
            for made in admin.create_topics([topic]).values():
                made.result(60)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            producer.produce("keyless", value=b"v", on_delivery=lambda e, _: answers.append(e))
            assert producer.flush(60) == 0
        finally:
            broker.stop()
    theirs, ours = answers
    assert theirs is not None
    assert ours is not None
    assert ours.code() == theirs.code()
