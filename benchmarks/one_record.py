"""Produce requests with one record each: what a request costs beside its bytes."""

import struct
import time
from typing import Final

from benchmarks.measures import CPU_PER_REQUEST, REQUESTS, Figures
from benchmarks.small_requests import request_frame, requests_per_second
from tools.kafka_peer.broker_process import BrokerProcess

from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

CONNECTIONS: Final = 4
VERSION: Final = 9
RECORD_SIZE: Final = 100


def produce_frame(topic: str, partition: int) -> bytes:
    """A Produce request with one record of 100 bytes, acks=all."""
    batch = build_batch([Record(value=b"x" * RECORD_SIZE, timestamp=int(time.time() * 1000))])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    return request_frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), VERSION)


def _error_code(answer: bytes) -> int:
    """After the correlation id, tags, one topic with its name, and one partition's number."""
    name_size = answer[6] - 1
    (error,) = struct.unpack_from(">h", answer, 7 + name_size + 1 + 4)
    return int(error)


def one_record_requests(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """Requests a second, and the broker's time for each of them."""
    frames = [produce_frame(topic, number) for number in range(CONNECTIONS)]
    rate, cpu = requests_per_second(broker, frames, _error_code, seconds=seconds)
    return {"requests": (rate, REQUESTS), "cpu": (cpu, CPU_PER_REQUEST)}
