"""Many partitions and many topics on one broker: how long they take to be made, what they cost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.light_requests import metadata
from benchmarks.measures import CREATE, MEMORY_PARTITIONS, Figures
from benchmarks.one_record import error_code, produce_frame
from benchmarks.small_requests import Asking
from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import BrokerProcess, resident_bytes

PARTITIONS: Final = 9_999
TOPICS: Final = 10_000
AT_ONCE: Final = 5_000
"""Partitions of one request, at most."""
PATIENCE_SECONDS: Final = 600.0


@contextmanager
def started(broker: BrokerProcess) -> Iterator[None]:
    broker.start()
    try:
        yield
    finally:
        broker.stop(timeout=PATIENCE_SECONDS)


def create_topics(broker: BrokerProcess, count: int, partitions: int) -> float:
    """Topics ``t0``, ``t1`` ... of so many partitions each; seconds until all are answered."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4})
    at_once = max(1, AT_ONCE // partitions)
    began = time.perf_counter()
    for first in range(0, count, at_once):
        numbers = range(first, min(first + at_once, count))
        asked = [NewTopic(f"t{number}", partitions, 1) for number in numbers]
        answers = admin.create_topics(asked, request_timeout=PATIENCE_SECONDS)
        for answer in answers.values():
            answer.result(PATIENCE_SECONDS)
    return time.perf_counter() - began


def wait_for_directories(broker: BrokerProcess, count: int) -> None:
    """Until each partition of the topics that we made has its own."""
    end = time.monotonic() + PATIENCE_SECONDS
    while sum(each.name.startswith("t") for each in broker.log_directory.iterdir()) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"not all of {count} directories are there")
        time.sleep(0.1)


def partitions(broker: BrokerProcess) -> Figures:
    """One topic of 9,999 partitions: made, there on disk, and served again after a restart."""
    last = produce_frame("t0", PARTITIONS - 1)
    with started(broker):
        began = time.perf_counter()
        answered = create_topics(broker, 1, PARTITIONS)
        wait_for_directories(broker, PARTITIONS)
        there = time.perf_counter() - began
        with Asking(broker.port) as asking:
            asking.until_taken(last, error_code)
        memory = resident_bytes(broker.pid)
        began = time.perf_counter()
        broker.stop(timeout=PATIENCE_SECONDS)
        broker.start(timeout=PATIENCE_SECONDS)
        with Asking(broker.port) as asking:
            asking.until_taken(last, error_code)
        restarted = time.perf_counter() - began
    return {
        "answered": (answered, CREATE),
        "directories there": (there, CREATE),
        "stop and start to a write": (restarted, CREATE),
        "memory": (memory / 1e6, MEMORY_PARTITIONS),
    }


def metadata_of_all(broker: BrokerProcess, *, seconds: float) -> Figures:
    """Of 10,000 topics of one partition, as a client that lists them asks for it."""
    with started(broker):
        create_topics(broker, TOPICS, 1)
        wait_for_directories(broker, TOPICS)
        return metadata(broker, None, seconds=seconds)
