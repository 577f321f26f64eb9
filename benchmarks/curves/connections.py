"""Produce requests of one record by more and more connections, all of them busy."""

from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.many import create_topics
from benchmarks.one_record import PARTITIONS, error_code, produce_frame
from benchmarks.small_requests import percentile, requests_per_second
from tools.kafka_peer.broker_process import resident_bytes

SECONDS: Final = 5.0


def measure(connections: int) -> Point:
    with fresh_broker() as broker:
        create_topics(broker, 1, PARTITIONS)
        frames = [produce_frame("t0", number % PARTITIONS) for number in range(connections)]
        requests_per_second(broker, frames[:4], error_code, seconds=1)
        bare = resident_bytes(broker.pid)
        many = requests_per_second(broker, frames, error_code, seconds=SECONDS)
        one = requests_per_second(
            broker, frames, error_code, seconds=SECONDS, in_flight=1, timed=True
        )
        memory = (resident_bytes(broker.pid) - bare) / 1e6
    return {
        "5 in flight: requests/s": many.requests,
        "5 in flight: broker, us": many.broker_us,
        "5 in flight: client, us": many.client_us,
        "1 in flight: requests/s": one.requests,
        "1 in flight: broker, us": one.broker_us,
        "1 in flight: p50, ms": percentile(one.ordered, 0.5) * 1e3,
        "1 in flight: p99, ms": percentile(one.ordered, 0.99) * 1e3,
        "memory, MB": memory,
    }


CURVE: Final = Curve(
    name="connections, all of them busy",
    sizes=(4, 32, 200, 1_000, 5_000),
    measure=measure,
    minutes=2,
)
