"""One broker with more and more partitions: does a request still cost what it cost before?"""

import time
from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.many import PATIENCE_SECONDS, create_topics, wait_for_directories
from benchmarks.one_record import error_code, produce_frame
from benchmarks.small_requests import Asking, latencies, percentile
from tools.kafka_peer.broker_process import cpu_seconds, resident_bytes

PER_TOPIC: Final = 1_000
REQUESTS: Final = 4_000
IDLE_SECONDS: Final = 10.0


def measure(partitions: int) -> Point:
    topics = max(1, partitions // PER_TOPIC)
    found: Point = {}
    with fresh_broker() as broker:
        bare = resident_bytes(broker.pid)
        began = time.perf_counter()
        found["create, answered, s"] = create_topics(broker, topics, partitions // topics)
        wait_for_directories(broker, partitions)
        found["create, all directories, s"] = time.perf_counter() - began
        found["memory, MB"] = (resident_bytes(broker.pid) - bare) / 1e6
        before = cpu_seconds(broker.pid)
        time.sleep(IDLE_SECONDS)
        found["idle, ms of CPU a second"] = (cpu_seconds(broker.pid) - before) / IDLE_SECONDS * 1e3
        with Asking(broker.port) as asking:
            one = [produce_frame("t0", 0)]
            latencies(asking, one * 200, error_code)
            found.update(_figures("produce to one", latencies(asking, one * REQUESTS, error_code)))
            step = max(1, partitions // REQUESTS)
            many = [
                produce_frame(f"t{number // (partitions // topics)}", number % PER_TOPIC)
                for number in range(0, partitions, step)
            ][:REQUESTS]
            found.update(_figures("first to many", latencies(asking, many, error_code)))
            found.update(_figures("again to many", latencies(asking, many, error_code)))
        found["memory after that, MB"] = (resident_bytes(broker.pid) - bare) / 1e6
        began = time.perf_counter()
        broker.stop(timeout=PATIENCE_SECONDS)
        found["stop, s"] = time.perf_counter() - began
        began = time.perf_counter()
        broker.start(timeout=PATIENCE_SECONDS)
        with Asking(broker.port) as asking:
            asking.until_taken(one[0], error_code)
        found["start to the first write, s"] = time.perf_counter() - began
    return found


def _figures(name: str, taken: list[float]) -> Point:
    return {
        f"{name}: p50, ms": percentile(taken, 0.5) * 1e3,
        f"{name}: p99, ms": percentile(taken, 0.99) * 1e3,
        f"{name}: longest, ms": taken[-1] * 1e3,
    }


CURVE: Final = Curve(
    name="partitions of one broker",
    sizes=(1_000, 5_000, 10_000, 20_000, 50_000),
    measure=measure,
    minutes=10,
)
