"""Apache's offline tools find nothing wrong in a directory; brokers of two makes share one."""

from pathlib import Path

import pytest
from tests.integration.admin import (
    alter_topic,
    create_topic,
    delete_records,
    delete_topic,
    offsets,
    topic_config,
)
from tests.integration.clients import BY_NAME, CLIENTS, COMPRESSIONS, Message
from tests.integration.conftest import QUICK
from tools.kafka_peer.broker_process import BrokerProcess, Program, apache_kafka, ottla
from tools.kafka_peer.peer import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
COUNT = 2_000


def fill(broker: BrokerProcess) -> list[Message]:
    """Topics with all that a directory may hold: many segments, codecs, deletions, configs."""
    create_topic(
        broker.bootstrap_servers,
        "many",
        config={"segment.bytes": "1048576", "index.interval.bytes": "1000"},
    )
    create_topic(broker.bootstrap_servers, "codecs", partitions=len(COMPRESSIONS))
    create_topic(broker.bootstrap_servers, "gone")
    sent = [
        Message(b"%06d" % n * 300, b"key%d" % n, (("n", b"%d" % n),), 1_700_000_000_000 + n)
        for n in range(COUNT)
    ]
    BY_NAME["aiokafka"].produce(broker.bootstrap_servers, "many", sent)  # in batches of 16 KiB
    for partition, compression in enumerate(COMPRESSIONS):
        for client in CLIENTS:
            client.produce(
                broker.bootstrap_servers, "codecs", sent[:50],
                partition=partition, compression=compression,
            )  # fmt: skip
    delete_records(broker.bootstrap_servers, "many", 100)
    alter_topic(broker.bootstrap_servers, "codecs", max_message_bytes="2000000")
    delete_topic(broker.bootstrap_servers, "gone")
    return sent


@pytest.fixture(scope="module")
def filled(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a broker has filled and left."""
    broker = BrokerProcess(program, tmp_path_factory.mktemp("filled"), QUICK)
    broker.start()
    fill(broker)
    broker.stop()
    return broker.log_directory


def dump(*args: str) -> str:
    done = run_tool("kafka-dump-log", *args)
    assert done.returncode == 0, done.stderr
    for complaint in (
        "isvalid: false",
        "Found timestamp mismatch",
        "Found out of order",
        "Mismatches",
    ):
        assert complaint not in done.stdout, done.stdout[-2000:]
    return done.stdout


def files(directory: Path, pattern: str) -> str:
    found = sorted(directory.glob(pattern))
    assert found, f"nothing like {pattern} in {directory}"
    return ",".join(str(path) for path in found)


def test_kafka_dump_log_reads_every_segment(filled: Path) -> None:
    logs = files(filled, "many-0/*.log")
    assert logs.count(",") > 2, "more than one segment was wanted"
    output = dump("--deep-iteration", "--print-data-log", "--files", logs)
    assert output.count("| offset: ") >= COUNT - 1000
    assert f"| offset: {COUNT - 1} CreateTime: {1_700_000_000_000 + COUNT - 1}" in output
    codecs = dump("--deep-iteration", "--files", files(filled, "codecs-*/*.log"))
    for compression in COMPRESSIONS:
        assert f"compresscodec: {compression}" in codecs


def test_kafka_dump_log_finds_the_indexes_in_order(filled: Path) -> None:
    for pattern in ("many-0/*.index", "many-0/*.timeindex", "codecs-*/*.index"):
        named = files(filled, pattern)
        dump("--verify-index-only", "--files", named)
        dump("--index-sanity-check", "--files", named)
    entries = dump("--files", files(filled, "many-0/*.index"))
    assert entries.count("offset: ") > 50
    dump("--files", files(filled, "many-0/*.timeindex"))


def test_kafka_dump_log_reads_producer_snapshots(filled: Path) -> None:
    output = dump("--files", files(filled, "codecs-0/*.snapshot"))
    assert "producerId: " in output


def test_kafka_dump_log_decodes_the_metadata(filled: Path) -> None:
    metadata = filled / "__cluster_metadata-0"
    output = dump(
        "--cluster-metadata-decoder", "--deep-iteration", "--files", files(metadata, "*.log")
    )
    for kind in ("LeaderChange", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD",
                 "REMOVE_TOPIC_RECORD", "FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD",
                 "PRODUCER_IDS_RECORD"):  # fmt: skip
        assert kind in output, kind
    for checkpoint in metadata.glob("*.checkpoint"):
        dump("--cluster-metadata-decoder", "--files", str(checkpoint))


def shell(log: Path, *words: str) -> str:
    """What the metadata shell prints; it may look before it has read, and then prints nothing."""
    for _ in range(5):
        done = run_tool("kafka-metadata-shell", "--snapshot", str(log), *words)
        assert done.returncode == 0, done.stderr
        if done.stdout.strip():
            return done.stdout
    return ""


def test_kafka_metadata_shell_walks_the_metadata(filled: Path) -> None:
    log = filled / "__cluster_metadata-0" / f"{0:020}.log"
    topics = set(shell(log, "ls", "/image/topics/byName").split())
    assert {"many", "codecs"} <= topics
    assert "gone" not in topics
    assert "replicas=[1]" in shell(log, "cat", "/image/topics/byName/codecs/0")


MAKES = ("ottla", "kafka")


@pytest.mark.parametrize("second", MAKES)
@pytest.mark.parametrize("first", MAKES)
def test_a_broker_goes_on_where_another_left(first: str, second: str, tmp_path: Path) -> None:
    """Written by one make, served and written by the other, served by the first again."""
    programs = {"ottla": ottla(), "kafka": apache_kafka(heap=("-Xmx512M",))}
    broker = BrokerProcess(programs[first], tmp_path / "shared", QUICK)
    broker.start()
    sent = fill(broker)
    try:
        for life, make in enumerate((second, first)):
            broker.stop()
            broker.program = programs[make]
            broker.start()
            _serves(broker, sent, life)
            more = [Message(b"life %d" % life, timestamp=1_750_000_000_000 + life)]
            assert CLIENTS[0].produce(broker.bootstrap_servers, "many", more) == [COUNT + life]
            create_topic(broker.bootstrap_servers, f"made-by-{make}-{life}")
            sent += more
        _serves(broker, sent, 2)
    finally:
        broker.kill()


def _serves(broker: BrokerProcess, sent: list[Message], life: int) -> None:
    assert offsets(broker.bootstrap_servers, "many") == (100, COUNT + life)
    received = CLIENTS[0].consume(broker.bootstrap_servers, "many", len(sent) - 100, offset=100)
    assert [each.message for each in received] == sent[100:]
    for partition in range(len(COMPRESSIONS)):
        read = CLIENTS[1].consume(broker.bootstrap_servers, "codecs", 150, partition=partition)
        assert [each.message for each in read] == sent[:50] * 3
    assert topic_config(broker.bootstrap_servers, "codecs")["max.message.bytes"] == "2000000"
    assert not list(broker.log_directory.glob("gone-0"))
