"""Compaction: one log, written once for each broker with the same bytes, cleaned by each.

The log is laid into the directory of a topic while the broker is down; the broker is started and
told by the topic's settings that the log is dirty enough. What counts is the time until the
cleaner's checkpoint has reached the active segment, and what all processes of the broker took for
it. Alone: ``python -m benchmarks.cleaner [--keys N] [--records N] [--value BYTES]``.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.latency import end_to_end
from benchmarks.measures import CLEANER, COLD_READERS, CPU_PER_GB, MEMORY_LOADED, Figures, Load
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tools.kafka_peer.broker_process import (
    BrokerProcess,
    Program,
    apache_kafka,
    cpu_seconds,
    ottla,
    process_tree,
)

from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.records.builder import BatchBuilder
from ottla.storage.cleaning import compaction
from ottla.storage.files import OsFilesystem
from ottla.storage.opening import open_log

TOPIC: Final = "compacted"
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(256 << 20),
    "min.cleanable.dirty.ratio": "1.0",
}
BROKER: Final = {"log.cleaner.backoff.ms": "20"}
BATCH_BYTES: Final = 16 << 10
STRIDE: Final = 7_368_787
"""A prime: keys come in no order, each as often as any other."""
POLL_SECONDS: Final = 0.01


def is_compiled() -> bool:
    return not compaction.__file__.endswith(".py")


def fill(directory: Path, *, records: int, keys: int, value_size: int) -> int:
    """Write the log that is to be cleaned; how many bytes it has."""
    log = open_log(
        OsFilesystem(),
        str(directory),
        topic_partition=TopicPartition(TOPIC, 0),
        topic_id=None,
        config=TopicConfig(SETTINGS),
        now_ms=0,
    )
    now_ms = time.time_ns() // 1_000_000
    builder, number = BatchBuilder(), 0
    while number < records:
        key = b"key-%010d" % (number * STRIDE % keys)
        builder.append(now_ms, key, (b"%012d" % number).ljust(value_size, b"v"))
        number += 1
        if builder.size >= BATCH_BYTES or number == records:
            batch = builder.build()
            log.append_as_leader(batch, 0, len(batch), leader_epoch=0, now_ms=now_ms)
            builder = BatchBuilder()
    log.roll(now_ms)
    size = log.size()
    log.close(now_ms)
    return size


def peak_bytes(pid: int) -> int:
    """The most memory that a process has ever held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def make_dirty(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4})
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", "0.0", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(60)


def clean_offset(broker: BrokerProcess) -> int:
    lines = (broker.log_directory / "cleaner-offset-checkpoint").read_text().splitlines()
    for line in lines[2:]:
        topic, _, offset = line.split(" ")
        if topic == TOPIC:
            return int(offset)
    return 0


def compact(
    program: Program, directory: Path, *, records: int, keys: int, value_size: int = 100
) -> Figures:
    """Clean one log by one broker, which runs for this alone."""
    broker = BrokerProcess(program, directory, BROKER)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=SETTINGS)])[TOPIC].result(60)
        broker.stop()
        size = fill(
            broker.log_directory / f"{TOPIC}-0", records=records, keys=keys, value_size=value_size
        )
        broker.start()
        time.sleep(1)
        cpu = cpu_seconds(broker.pid)
        began = time.perf_counter()
        make_dirty(broker)
        while clean_offset(broker) < records:
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - began
        pids = process_tree(broker.pid)
        cpu = sum(map(cpu_seconds, pids)) - cpu
        peak = sum(map(peak_bytes, pids))
    finally:
        broker.stop()
    return {
        "cleaned": (size / 1e6 / seconds, CLEANER),
        "cpu": (cpu / (size / 1e9), CPU_PER_GB),
        "peak memory": (peak / 1e6, MEMORY_LOADED),
    }


def tail_beside_cleaning(directory: Path, load: Load) -> tuple[Figures, Figures]:
    """The latency of another topic's tail, alone and while the cleaner is at work."""
    broker = BrokerProcess(ottla(), directory, BROKER)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        new = [NewTopic(TOPIC, 1, 1, config=SETTINGS), NewTopic("alone", 1), NewTopic("beside", 1)]
        for made in admin.create_topics(new).values():
            made.result(60)
        broker.stop()
        records = max(int(4_000_000 * load.scale), 1_000_000)
        where = broker.log_directory / f"{TOPIC}-0"
        fill(where, records=records, keys=records // 2, value_size=100)
        broker.start()
        alone = end_to_end(broker, "alone", samples=load.latency_samples)
        make_dirty(broker)
        while len(process_tree(broker.pid)) < 2:
            time.sleep(POLL_SECONDS)
        beside = end_to_end(broker, "beside", samples=load.latency_samples)
        assert clean_offset(broker) < records, "the cleaner was through before the tail"
    finally:
        broker.stop()
    return _as_ratio(alone), _as_ratio(beside)


def _as_ratio(figures: Figures) -> Figures:
    return {name: (value, COLD_READERS) for name, (value, _) in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--value", type=int, default=100)
    parser.add_argument("--only", choices=("ottla", "kafka"))
    options = parser.parse_args()
    print(f"ottla is {'compiled' if is_compiled() else 'interpreted'}")
    for program in (apache_kafka(), ottla()):
        if options.only in (None, program.name):
            with tempfile.TemporaryDirectory(prefix="bench-cleaner-") as directory:
                figures = compact(
                    program,
                    Path(directory),
                    records=options.records,
                    keys=options.keys,
                    value_size=options.value,
                )
            shown = ", ".join(
                f"{name} {value:,.1f} {measure.unit}" for name, (value, measure) in figures.items()
            )
            print(f"{program.name:<6} {shown}", flush=True)


if __name__ == "__main__":
    main()
