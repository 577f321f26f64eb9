"""One broker with more and more topics: what a change of one costs, and what it costs to tell."""

import time
from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.light_requests import metadata
from benchmarks.many import (
    PATIENCE_SECONDS,
    create_topics,
    wait_for_directories,
)
from benchmarks.one_record import error_code, produce_frame
from benchmarks.small_requests import Asking
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds, resident_bytes

CHANGES: Final = 50
SECONDS: Final = 3.0


def measure(topics: int) -> Point:
    found: Point = {}
    with fresh_broker() as broker:
        bare = resident_bytes(broker.pid)
        began = time.perf_counter()
        found["create all, answered, s"] = create_topics(broker, topics, 1)
        wait_for_directories(broker, topics)
        found["create all, directories there, s"] = time.perf_counter() - began
        found["memory, MB"] = (resident_bytes(broker.pid) - bare) / 1e6
        found.update(_changes(broker))
        one = metadata(broker, "t0", seconds=SECONDS)
        found["Metadata of one, us of CPU"] = one["cpu"][0]
        everything = metadata(broker, None, seconds=SECONDS)
        found["Metadata of all, ms of CPU"] = everything["cpu"][0] / 1e3
        began = time.perf_counter()
        broker.stop(timeout=PATIENCE_SECONDS)
        found["stop, s"] = time.perf_counter() - began
        began = time.perf_counter()
        broker.start(timeout=PATIENCE_SECONDS)
        with Asking(broker.port) as asking:
            asking.until_taken(produce_frame("t0", 0), error_code)
        found["start to the first write, s"] = time.perf_counter() - began
    return found


def _changes(broker: BrokerProcess) -> Point:
    """One topic more, its settings, and one less: one request after the other."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4})
    names = [f"one-more-{number}" for number in range(CHANGES)]
    found: Point = {}

    def took(what: str, began: float) -> None:
        found[f"{what}, ms of CPU"] = (cpu_seconds(broker.pid) - began) / CHANGES * 1e3

    began = cpu_seconds(broker.pid)
    for name in names:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    took("create one", began)
    began = cpu_seconds(broker.pid)
    for name in names:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        change = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(change)
        admin.incremental_alter_configs([resource])[resource].result(60)
    took("change its settings", began)
    began = cpu_seconds(broker.pid)
    for name in names:
        admin.delete_topics([name])[name].result(60)
    took("delete one", began)
    return found


CURVE: Final = Curve(
    name="topics",
    sizes=(1_000, 5_000, 10_000, 50_000),
    measure=measure,
    minutes=8,
)
