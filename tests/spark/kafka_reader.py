"""What another's client reads of a topic: librdkafka, only what is committed."""

from typing import NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition


class Read(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_committed(address: str, topic: str, partition: int, start: int = 0) -> list[Read]:
    """All of a partition from an offset on, up to where it ends now."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    found: list[Read] = []
    try:
        where = TopicPartition(topic, partition, start)
        _, last = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([where])
        idle = 0
        while idle < 100:
            message = consumer.poll(0.5)
            if message is None:
                idle += 1
            elif message.error():
                position = consumer.position([TopicPartition(topic, partition)])[0].offset
                if position >= last or not last:
                    return found
                idle += 1  # the last transaction's marker is on its way
            else:
                found.append(_read(message))
        raise AssertionError(f"{topic}-{partition} was not read to {last}: {found[-3:]}")
    finally:
        consumer.close()


def _read(message: Message) -> Read:
    offset = message.offset()
    assert offset is not None
    headers = []
    for header in message.headers() or ():
        assert isinstance(header, tuple)
        assert not isinstance(header[1], str)
        headers.append((header[0], header[1]))
    key, value = message.key(), message.value()
    assert not isinstance(key, str)
    assert not isinstance(value, str)
    return Read(offset, key, value, message.timestamp()[1], tuple(headers))


def read_topic(address: str, topic: str, partitions: int) -> list[list[Read]]:
    return [read_committed(address, topic, index) for index in range(partitions)]
