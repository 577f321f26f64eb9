"""Makes a topic, writes to it and reads it in a consumer group, with confluent-kafka."""

import sys
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker

TOPIC = "greetings"


def main(servers: str) -> None:
    address = {"bootstrap.servers": servers}
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, num_partitions=3)])[TOPIC].result()

    producer = Producer({**address, "enable.idempotence": True})
    for name in ("Ada", "Grace", "Edsger"):
        producer.produce(TOPIC, key=name, value=f"hello, {name}")
    producer.flush()

    consumer = Consumer({**address, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    read: list[str] = []
    while len(read) < 3:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            read.append((message.value() or b"").decode())
    consumer.close()
    print("read", sorted(read))


if __name__ == "__main__":
    with ExitStack() as stack:
        main(sys.argv[1] if sys.argv[1:] else stack.enter_context(Broker()).bootstrap_servers)
