"""Copies a topic exactly once: records and the offsets that they come from, in one transaction.

The first attempt is aborted in the middle, as by a crash. Readers of committed records see nothing
of it, and the second attempt begins where the last committed one ended.
"""

import sys
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Broker

SOURCE, COPY = "orders", "orders-copy"
COUNT = 20


def copy(servers: str, *, fails: bool) -> None:
    address = {"bootstrap.servers": servers}
    consumer = Consumer(
        {
            **address,
            "group.id": "copier",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({**address, "transactional.id": "copier"})
    producer.init_transactions()
    consumer.subscribe([SOURCE])
    producer.begin_transaction()
    copied = 0
    while copied < COUNT // 2 if fails else copied < COUNT:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            producer.produce(COPY, message.value())
            copied += 1
    producer.flush()
    if fails:
        producer.abort_transaction()
    else:
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()
    consumer.close()


def read(servers: str, topic: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[int] = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        values.append(int(message.value() or b""))
    consumer.close()
    return values


def main(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(COUNT):
        producer.produce(SOURCE, str(number))
    producer.flush()
    copy(servers, fails=True)
    copy(servers, fails=False)
    print("copied once:", read(servers, COPY) == list(range(COUNT)))


if __name__ == "__main__":
    with ExitStack() as stack:
        main(sys.argv[1] if sys.argv[1:] else stack.enter_context(Broker()).bootstrap_servers)
