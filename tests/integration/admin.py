"""Short forms of what tests ask of an admin client, and waiting for what takes a moment."""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.waiting import eventually

TIMEOUT_SECONDS: Final = 20.0
NO_LEADER_YET: Final = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


def admin_client(bootstrap_servers: str) -> AdminClient:
    """A client to be held by a name: the futures of one that is dropped never come."""
    return AdminClient({"bootstrap.servers": bootstrap_servers, "socket.timeout.ms": 20_000})


def create_topic(
    bootstrap_servers: str,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic and wait until each partition has a leader."""
    admin = admin_client(bootstrap_servers)
    new = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
    admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[name].result()
    eventually(lambda: _has_leaders(admin, name, partitions), f"leaders of {name}")


def _has_leaders(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name].partitions
    return len(found) == partitions and all(each.leader >= 0 for each in found.values())


def delete_topic(bootstrap_servers: str, name: str) -> None:
    admin = admin_client(bootstrap_servers)
    admin.delete_topics([name])[name].result()


def alter_topic(bootstrap_servers: str, name: str, **settings: str) -> None:
    """Set configs of a topic, with underscores for the dots of their names."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = admin_client(bootstrap_servers)
    admin.incremental_alter_configs([resource])[resource].result()


def topic_config(bootstrap_servers: str, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    admin = admin_client(bootstrap_servers)
    found = admin.describe_configs([resource])[resource].result()
    return {key: entry.value for key, entry in found.items()}


def delete_records(bootstrap_servers: str, name: str, offset: int, partition: int = 0) -> int:
    """Delete what is before ``offset``; the new log start offset."""
    admin = admin_client(bootstrap_servers)
    upto = TopicPartition(name, partition, offset)
    low_watermark: int = admin.delete_records([upto])[upto].result().low_watermark
    return low_watermark


def offsets(bootstrap_servers: str, name: str, partition: int = 0) -> tuple[int, int]:
    """The log start offset and the high watermark, asked of the broker.

    A broker that has just started may not lead the partition yet; then it is asked again.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "not-used"})
    asked = TopicPartition(name, partition)
    end = time.monotonic() + TIMEOUT_SECONDS
    try:
        while True:
            try:
                low, high = consumer.get_watermark_offsets(asked, TIMEOUT_SECONDS, cached=False)
            except KafkaException as error:
                if error.args[0].code() not in NO_LEADER_YET or time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return low, high
    finally:
        consumer.close()
