"""One fetch session over more and more partitions: what a fetch costs of which one has news."""

import struct
import time
from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.many import create_topics, wait_for_directories
from benchmarks.one_record import error_code, produce_frame
from benchmarks.small_requests import Asking, latencies, percentile, request_frame
from tools.kafka_peer.broker_process import cpu_seconds

from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.message import from_bytes

VERSION: Final = 12
FETCHES: Final = 100
_HEADER: Final = 5


def _fetch(session_id: int, epoch: int, topics: list[FetchTopic], wait_ms: int) -> bytes:
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
    )
    return request_frame(request, VERSION)


def _moved(offset: int) -> list[FetchTopic]:
    """The partition that is written to, from that offset on."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 16)
    return [FetchTopic(topic="t0", partitions=[asked])]


def measure(partitions: int) -> Point:
    found: Point = {}
    with fresh_broker() as broker:
        create_topics(broker, 1, partitions)
        wait_for_directories(broker, partitions)
        produce = produce_frame("t0", 0)
        asked = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 16)
            for number in range(partitions)
        ]
        with Asking(broker.port) as reader, Asking(broker.port) as writer:
            writer.until_taken(produce, error_code)
            began = time.perf_counter()
            first = _read(reader.ask(_fetch(0, 0, [FetchTopic(topic="t0", partitions=asked)], 0)))
            found["first fetch, ms"] = (time.perf_counter() - began) * 1e3
            assert first.session_id, "no session"
            before, taken = cpu_seconds(broker.pid), []
            for number in range(FETCHES):  # each finds one record, at once
                latencies(writer, [produce], error_code)
                frame = _fetch(first.session_id, number + 1, _moved(number + 1), 0)
                began = time.perf_counter()
                answer = _read(reader.ask(frame))
                taken.append(time.perf_counter() - began)
                assert [p.partition_index for t in answer.responses for p in t.partitions] == [0]
            spent = cpu_seconds(broker.pid) - before
            found["fetch with one record: CPU, ms"] = spent / FETCHES * 1e3
            found["fetch with one record: p50, ms"] = percentile(sorted(taken), 0.5) * 1e3
            before, taken = cpu_seconds(broker.pid), []
            for number in range(FETCHES + 1, 2 * FETCHES + 1):  # each waits for a record
                reader.socket.sendall(_fetch(first.session_id, number, _moved(number), 60_000))
                time.sleep(0.001)
                began = time.perf_counter()
                latencies(writer, [produce], error_code)
                taken.append(time.perf_counter() - began)
                _receive(reader)
            spent = cpu_seconds(broker.pid) - before
            found["fetch that waits: CPU, ms"] = spent / FETCHES * 1e3
            found["produce beside it: p50, ms"] = percentile(sorted(taken), 0.5) * 1e3
    return found


def _receive(reader: Asking) -> None:
    (length,) = struct.unpack(">i", reader.receive(4))
    assert _read(reader.receive(length)).error_code == 0


def _read(answer: bytes) -> FetchResponse:
    found = from_bytes(FetchResponse, answer[_HEADER:], VERSION)
    assert found.error_code == 0, found.error_code
    return found


CURVE: Final = Curve(
    name="partitions of one fetch session",
    sizes=(10, 100, 1_000, 3_000, 9_999),
    measure=measure,
    minutes=2,
)
