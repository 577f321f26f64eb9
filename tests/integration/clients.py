"""Three clients that others wrote, behind two verbs: produce to a partition, read from an offset.

What a test says of one client it says of all of them; whatever is particular to a client stays in
the test that is about it. Consumers here assign partitions by themselves: no group is needed.
"""

import asyncio
import warnings
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import aiokafka
import confluent_kafka

with warnings.catch_warnings():  # kafka-python reads its schemas by a call that Python would drop
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

T = TypeVar("T")

DEADLINE_SECONDS: Final = 30.0
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def run_whole(coroutine: Coroutine[object, None, T]) -> T:
    """As ``asyncio.run``, to the end of its connections: aiokafka waits for none that it closes."""

    async def whole() -> T:
        sockets = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        try:
            return await coroutine
        finally:
            for _ in range(500):
                if len(sockets.get_map()) == 1:  # the loop's own
                    break
                await asyncio.sleep(0.01)

    return asyncio.run(whole())


class Message(NamedTuple):
    """What is produced."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Received(NamedTuple):
    """What comes back; ``timestamp_type`` is 0 for the producer's time and 1 for the broker's."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: int

    @property
    def message(self) -> Message:
        return Message(self.value, self.key, self.headers, self.timestamp)


class Client(Protocol):
    name: str
    writes_null_headers: bool

    def produce(
        self,
        bootstrap_servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: int = -1,
        max_bytes: int = 1_000_000,
    ) -> list[int]:
        """Send in order and wait for each answer; the offsets, -1 where ``acks`` is 0."""
        ...

    def consume(
        self,
        bootstrap_servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
    ) -> list[Received]:
        """``count`` records from ``offset`` on; an error when they do not come in time."""
        ...


class Confluent:
    """confluent-kafka: librdkafka in C."""

    name = "confluent-kafka"
    writes_null_headers = True

    def produce(
        self,
        bootstrap_servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: int = -1,
        max_bytes: int = 1_000_000,
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": compression,
                "acks": acks,
                "linger.ms": 20,
                "message.max.bytes": max_bytes,
            }
        )
        offsets: list[int] = []
        errors: list[confluent_kafka.KafkaError] = []

        def delivered(error: Any, answer: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offset = answer.offset()
                offsets.append(-1 if offset is None or offset < 0 else offset)

        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=partition,
                headers=list(message.headers),
                timestamp=message.timestamp or 0,
                on_delivery=delivered,
            )
        left = producer.flush(DEADLINE_SECONDS)
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        assert left == 0, f"{left} records were not answered"
        return offsets

    def consume(
        self,
        bootstrap_servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
    ) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            received: list[Received] = []
            while len(received) < count:
                found = consumer.consume(count - len(received), DEADLINE_SECONDS)
                assert found, f"{len(received)} of {count} records within {DEADLINE_SECONDS} s"
                received.extend(_from_confluent(message) for message in found)
            return received
        finally:
            consumer.close()


def _from_confluent(message: Any) -> Received:
    if message.error() is not None:
        raise confluent_kafka.KafkaException(message.error())
    kind, timestamp = message.timestamp()
    return Received(
        message.offset(),
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        timestamp,
        0 if kind == confluent_kafka.TIMESTAMP_CREATE_TIME else 1,
    )


class KafkaPython:
    """kafka-python: pure Python, blocking."""

    name = "kafka-python"
    writes_null_headers = False

    def produce(
        self,
        bootstrap_servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: int = -1,
        max_bytes: int = 1_000_000,
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            compression_type=None if compression == "none" else compression,
            acks=acks,
            enable_idempotence=acks == -1,
            linger_ms=20,
            max_request_size=max_bytes,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    message.value,
                    message.key,
                    list(message.headers),
                    partition,
                    message.timestamp,
                )
                for message in messages
            ]
            producer.flush(DEADLINE_SECONDS)
            answers = [future.get(DEADLINE_SECONDS) for future in futures]
            return [-1 if answer.offset is None else answer.offset for answer in answers]
        finally:
            producer.close()

    def consume(
        self,
        bootstrap_servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
    ) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            auto_offset_reset="none",
            enable_auto_commit=False,
            consumer_timeout_ms=int(DEADLINE_SECONDS * 1000),
            fetch_max_wait_ms=50,
        )
        try:
            assigned = kafka.TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            received: list[Received] = []
            for record in consumer:
                received.append(_from_python(record))
                if len(received) == count:
                    return received
            raise AssertionError(f"{len(received)} of {count} records came in time")
        finally:
            consumer.close()


class AioKafka:
    """aiokafka: on asyncio, with a record codec in C."""

    name = "aiokafka"
    writes_null_headers = True

    def produce(
        self,
        bootstrap_servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: int = -1,
        max_bytes: int = 1_000_000,
    ) -> list[int]:
        async def send() -> list[int]:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                compression_type=None if compression == "none" else compression,
                acks=acks,
                linger_ms=20,
                max_request_size=max_bytes,
            ) as producer:
                futures = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition,
                        message.timestamp,
                        list(message.headers),
                    )
                    for message in messages
                ]
                answers = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_SECONDS)
                return [-1 if answer is None else answer.offset for answer in answers]

        return asyncio.run(send())

    def consume(
        self,
        bootstrap_servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
    ) -> list[Received]:
        async def read() -> list[Received]:
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers,
                auto_offset_reset="none",
                enable_auto_commit=False,
                fetch_max_wait_ms=50,
            ) as consumer:
                assigned = aiokafka.TopicPartition(topic, partition)
                consumer.assign([assigned])
                consumer.seek(assigned, offset)
                return [_from_python(await consumer.getone()) for _ in range(count)]

        return asyncio.run(asyncio.wait_for(read(), DEADLINE_SECONDS))


def _from_python(record: Any) -> Received:
    """The two clients in Python give records of the same shape."""
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple((name, value) for name, value in record.headers),
        record.timestamp,
        record.timestamp_type,
    )


CLIENTS: Final[tuple[Client, ...]] = (Confluent(), KafkaPython(), AioKafka())
BY_NAME: Final = {client.name: client for client in CLIENTS}
