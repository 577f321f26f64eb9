"""A member of a group as a process of its own, to be killed: ``SERVERS GROUP TOPIC PROTOCOL FILE``.

It reads, commits after every few records, and writes each step down with its time, before the next:
``read PARTITION OFFSET VALUE`` and, once the broker has said so, ``committed PARTITION OFFSET``.
"""

import sys
import time
from typing import TextIO

import confluent_kafka

EVERY = 20


def main(servers: str, group: str, topic: str, protocol: str, path: str) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    with open(path, "a", buffering=1, encoding="ascii") as log:  # noqa: PTH123
        consumer.subscribe([topic], on_revoke=lambda *_: commit(consumer, log))
        while True:
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            partition, offset = message.partition(), message.offset() or 0
            value = (message.value() or b"").decode()
            log.write(f"{time.time()} read {partition} {offset} {value}\n")
            if offset % EVERY == EVERY - 1:
                commit(consumer, log)


def commit(consumer: confluent_kafka.Consumer, log: TextIO) -> None:
    try:
        done = consumer.commit(asynchronous=False)
    except confluent_kafka.KafkaException:
        return  # there was nothing, or a rebalance has come between
    for each in done or []:
        if each.error is None and each.offset >= 0:
            log.write(f"{time.time()} committed {each.partition} {each.offset}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
