"""A member of a group as a process of its own, to be killed: ``SERVERS GROUP TOPIC KIND FILE``.

The kind is ``consumer`` (KIP-848) or the assignor of a classic group. Asked to end (SIGTERM) it
leaves the group; killed it says nothing. It reads, commits after every few records, and writes each
step down with its time, before the next: ``read PARTITION OFFSET VALUE`` and, once the broker has
said so, ``committed PARTITION OFFSET``.
"""

import signal
import sys
import threading
import time
from typing import TextIO

import confluent_kafka

EVERY = 20


def group_settings(kind: str) -> dict[str, str | int | bool]:
    if kind == "consumer":
        return {"group.protocol": "consumer"}
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": kind,
        "session.timeout.ms": 5000,
        "heartbeat.interval.ms": 300,
    }


def main(servers: str, group: str, topic: str, kind: str, path: str) -> None:
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
            **group_settings(kind),
        }
    )
    with open(path, "a", buffering=1, encoding="ascii") as log:  # noqa: PTH123
        consumer.subscribe([topic], on_revoke=lambda *_: commit(consumer, log))
        while not asked_to_end.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            partition, offset = message.partition(), message.offset() or 0
            value = (message.value() or b"").decode()
            log.write(f"{time.time()} read {partition} {offset} {value}\n")
            if offset % EVERY == EVERY - 1:
                commit(consumer, log)
        consumer.close()


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
