"""Produce requests with one record each: what a request costs beside its bytes."""

import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.measures import (
    CLIENT_PER_REQUEST,
    CPU_PER_REQUEST,
    LATENCY,
    LATENCY_TAIL,
    REQUESTS,
    Figures,
)
from benchmarks.small_requests import (
    Asking,
    Rate,
    latencies,
    percentile,
    request_frame,
    requests_per_second,
)
from tools.kafka_peer.broker_process import BrokerProcess

from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

PARTITIONS: Final = 4
VERSION: Final = 9
RECORD_SIZE: Final = 100


def produce_frame(topic: str, partition: int) -> bytes:
    """A Produce request with one record of 100 bytes, acks=all."""
    batch = build_batch([Record(value=b"x" * RECORD_SIZE, timestamp=int(time.time() * 1000))])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    return request_frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), VERSION)


def error_code(answer: bytes) -> int:
    """After the correlation id, tags, one topic with its name, and one partition's number."""
    name_size = answer[6] - 1
    (error,) = struct.unpack_from(">h", answer, 7 + name_size + 1 + 4)
    return int(error)


def one_record_requests(
    broker: BrokerProcess,
    topic: str,
    *,
    connections: int,
    seconds: float,
    leaders: Sequence[int] = (),
    connect: Callable[[int], Asking] = Asking,
) -> Figures:
    """Requests a second to a topic of four partitions, and the broker's time for each of them.

    ``leaders`` are the ports of the partitions' leaders, where they are not the broker's own.
    """
    partitions = [number % PARTITIONS for number in range(connections)]
    frames = [produce_frame(topic, each) for each in partitions]
    ports = [leaders[each] for each in partitions] if leaders else ()
    rate = requests_per_second(
        broker, frames, error_code, seconds=seconds, ports=ports, connect=connect
    )
    return figures_of(rate)


def figures_of(rate: Rate) -> Figures:
    return {
        "requests": (rate.requests, REQUESTS),
        "cpu": (rate.broker_us, CPU_PER_REQUEST),
        "client": (rate.client_us, CLIENT_PER_REQUEST),
    }


def lone_requests(broker: BrokerProcess, topic: str, *, samples: int) -> Figures:
    """How long one request takes when nothing else is asked: one connection, one in flight."""
    frame = produce_frame(topic, 0)
    with Asking(broker.port) as asking:
        asking.until_taken(frame, error_code)
        latencies(asking, [frame] * (samples // 5), error_code)
        taken = latencies(asking, [frame] * samples, error_code)
    return {
        "p50": (percentile(taken, 0.5) * 1e3, LATENCY),
        "p99": (percentile(taken, 0.99) * 1e3, LATENCY),
        "p99.9": (percentile(taken, 0.999) * 1e3, LATENCY_TAIL),
    }
