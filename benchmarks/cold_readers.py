"""What readers of remote history cost the readers of the tail.

One record at a time goes from a producer to a consumer, alone and then beside ten readers that
begin at offset 0 of a topic of which at least 95 % are in the remote store. To tell the store's
share from that of mere load, the same is done beside ten readers of a topic that is all on this
disk. The readers are one process of lower priority, so that on a small machine the broker and not
the clients' own hunger for the processor is measured; each reads at most ``READER_RATE``.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.latency import end_to_end
from benchmarks.measures import COLD_READERS, Figures, Load
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import BrokerProcess, ottla
from tools.kafka_peer.setup import PROJECT

from ottla.client.admin import Admin
from ottla.common.topic_partition import TopicPartition as OurPartition

LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
READERS: Final = 10
READER_RATE: Final = 4_000_000
"""Bytes a second of each reader."""
RECORD: Final = b"h" * 1_000
SEGMENT: Final = 8 << 20
REMOTE_PART: Final = 0.95
SETTINGS: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
}
WAIT_SECONDS: Final = 120


def tail_beside_cold_readers(directory: Path, load: Load) -> tuple[Figures, Figures, Figures]:
    """The tail's latency alone, beside readers of local history, and beside those of remote."""
    url = (directory / "remote").as_uri()
    broker = BrokerProcess(ottla(), directory, {**SETTINGS, "ottla.remote.store.url": url})
    broker.start()
    try:
        size = int(400e6 * load.scale)
        _fill(broker, "local", size, {"segment.bytes": str(SEGMENT)})
        tiered = {
            "segment.bytes": str(SEGMENT),
            "remote.storage.enable": "true",
            "local.retention.bytes": "1",
        }
        _fill(broker, "remote", size, tiered)
        _wait_until_remote(broker, "remote")
        samples = load.latency_samples
        alone = _tail(broker, samples, "tail-alone")
        with _readers(broker, "local"):
            beside_local = _tail(broker, samples, "tail-beside-local")
        with _readers(broker, "remote"):
            beside_remote = _tail(broker, samples, "tail-beside-remote")
        return alone, beside_local, beside_remote
    finally:
        broker.stop()


def _fill(broker: BrokerProcess, topic: str, size: int, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for _ in range(size // len(RECORD)):
        while True:
            try:
                producer.produce(topic, RECORD, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def _wait_until_remote(broker: BrokerProcess, topic: str) -> None:
    partition = OurPartition(topic, 0)
    deadline = time.monotonic() + WAIT_SECONDS
    with Admin(broker.bootstrap_servers) as admin:
        end = admin.list_offsets({partition: LATEST})[partition].offset
        while admin.list_offsets({partition: EARLIEST_LOCAL})[partition].offset < end * REMOTE_PART:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} did not become remote:\n{broker.output()}")
            time.sleep(0.2)


def _tail(broker: BrokerProcess, samples: int, topic: str) -> Figures:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    figures = end_to_end(broker, topic, samples=samples)
    return {name: (value, COLD_READERS) for name, (value, _) in figures.items()}


@contextlib.contextmanager
def _readers(broker: BrokerProcess, topic: str) -> Iterator[None]:
    words = [sys.executable, "-m", "benchmarks.cold_readers", broker.bootstrap_servers, topic]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"reading\n"
            yield
        finally:
            process.kill()


def read_for_ever(bootstrap_servers: str, topic: str) -> None:
    """Ten consumers, each from offset 0 on and again from there when it is through."""
    os.nice(10)
    consumers = []
    for _ in range(READERS):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 2_000,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumers.append(consumer)
    print("reading", flush=True)
    chunk = READER_RATE // len(RECORD) // 20
    while True:
        began = time.monotonic()
        for consumer in consumers:
            for message in consumer.consume(chunk, timeout=0):
                if message.error() is not None:
                    consumer.seek(TopicPartition(topic, 0, 0))
        time.sleep(max(0.0, began + 0.05 - time.monotonic()))


if __name__ == "__main__":
    read_for_ever(*sys.argv[1:])
