"""Settings that act without a restart: retention, segments, compression, limits of the cluster."""

import time

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.integration.admin import admin_client, alter_topic, create_topic, offsets, topic_config
from tests.integration.clients import CLIENTS, Message
from tests.integration.segments import batches
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

YESTERDAY_MS = 86_400_000


def test_old_records_go_when_retention_is_set(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    old = int(time.time() * 1000) - 2 * YESTERDAY_MS
    messages = [Message(b"%d" % n, timestamp=old + n) for n in range(10)]
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, messages)
    assert offsets(broker.bootstrap_servers, topic_name) == (0, 10)

    alter_topic(broker.bootstrap_servers, topic_name, retention_ms=str(YESTERDAY_MS))

    eventually(
        lambda: offsets(broker.bootstrap_servers, topic_name) == (10, 10), "retention by time"
    )
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"new")])
    (received,) = CLIENTS[0].consume(broker.bootstrap_servers, topic_name, 1, offset=10)
    assert received.value == b"new"


def test_the_oldest_segments_go_when_the_log_is_too_big(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, config={"segment.bytes": "1048576"})
    for n in range(6):
        sent = [Message(bytes([n]) * 450_000) for _ in range(2)]
        CLIENTS[0].produce(broker.bootstrap_servers, topic_name, sent)
    directory = broker.log_directory / f"{topic_name}-0"
    assert len(list(directory.glob("*.log"))) > 3

    alter_topic(broker.bootstrap_servers, topic_name, retention_bytes="2000000")

    eventually(lambda: offsets(broker.bootstrap_servers, topic_name)[0] > 0, "retention by size")
    low, high = offsets(broker.bootstrap_servers, topic_name)
    assert high == 12
    assert low <= 8, "two megabytes are to stay"
    received = CLIENTS[0].consume(broker.bootstrap_servers, topic_name, high - low, offset=low)
    assert [each.value for each in received] == [bytes([n // 2]) * 450_000 for n in range(low, 12)]


def test_the_codec_of_the_topic_is_used_from_now_on(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    sent = [Message(b"a" * 2_000)]
    for codec in ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"):
        alter_topic(broker.bootstrap_servers, topic_name, compression_type=codec)
        CLIENTS[0].produce(broker.bootstrap_servers, topic_name, sent, compression="lz4")

    written = [batch.codec for batch in batches(broker.log_directory, topic_name)]
    assert written == ["lz4", "gzip", "snappy", "lz4", "zstd", "none", "lz4"]
    for reader in CLIENTS:
        received = reader.consume(broker.bootstrap_servers, topic_name, 7)
        assert [each.value for each in received] == [b"a" * 2_000] * 7, reader.name


def test_a_setting_of_the_broker_reaches_topics_that_say_nothing(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    explicit = f"{topic_name}-explicit"
    create_topic(broker.bootstrap_servers, explicit, config={"segment.bytes": "5000000"})

    set_on_broker(broker, "log.segment.bytes", "7000000")
    try:
        eventually(lambda: segment_bytes(broker, topic_name) == "7000000", "the new setting")
        assert segment_bytes(broker, explicit) == "5000000"
    finally:
        set_on_broker(broker, "log.segment.bytes", None)
    eventually(lambda: segment_bytes(broker, topic_name) == "1073741824", "the old setting")


def segment_bytes(broker: BrokerProcess, topic: str) -> str:
    return topic_config(broker.bootstrap_servers, topic)["segment.bytes"]


def set_on_broker(broker: BrokerProcess, name: str, value: str | None) -> None:
    operation = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = admin_client(broker.bootstrap_servers)
    admin.incremental_alter_configs([resource])[resource].result()
