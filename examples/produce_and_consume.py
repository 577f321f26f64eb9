"""Writes ten records and reads them back, with the client that comes with ottla."""

import sys
from contextlib import ExitStack

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.testing import Broker

TOPIC = "numbers"


def main(servers: str) -> None:
    with Producer(servers) as producer:
        sent = [producer.send(TOPIC, str(number).encode(), key=b"n") for number in range(10)]
    print("the last one is at offset", sent[-1].result().offset)

    with Consumer(servers) as consumer:
        partitions = consumer.partitions(TOPIC)
        consumer.assign(consumer.beginning_offsets(partitions))
        ends = consumer.end_offsets(partitions)
        values: list[int] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=1_000).values():
                values += [int(record.value or b"") for record in records]
    print("read", values)


if __name__ == "__main__":
    with ExitStack() as stack:
        main(sys.argv[1] if sys.argv[1:] else stack.enter_context(Broker()).bootstrap_servers)
