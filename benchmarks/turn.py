"""One turn of one broker: started on an empty directory, run through all rows, stopped.

The two brokers never run at once. Before the figures count, each is warmed up with the same load;
topics are deleted as soon as they have been read, so that the disk stays out of it.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks import groups
from benchmarks.cleaner import compact
from benchmarks.latency import end_to_end
from benchmarks.measures import (
    BATCHES,
    CREATE,
    MEMORY_IDLE,
    MEMORY_LOADED,
    SIZES,
    START,
    Figures,
    Load,
)
from benchmarks.one_record import CONNECTIONS, one_record_requests
from benchmarks.throughput import (
    consume_java,
    consume_librdkafka,
    produce_java,
    produce_librdkafka,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import BrokerProcess, Program, resident_bytes

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "300000",
    "num.recovery.threads.per.data.dir": "2",
}
MANY_PARTITIONS: Final = 1_000
SETTLE_SECONDS: Final = 2.0

Report = Callable[[str, Figures], None]


@contextlib.contextmanager
def topic_on(broker: BrokerProcess, name: str, partitions: int = 1) -> Iterator[str]:
    """A topic that is there for one row."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(60)


class Turn:
    """The rows of one broker in one round, each reported as soon as it is done."""

    def __init__(self, program: Program, directory: Path, load: Load, wanted: str) -> None:
        self._broker = BrokerProcess(program, directory, SETTINGS)
        self._program = program
        self._directory = directory
        self._load = load
        self._wanted = wanted

    def run(self, report: Report) -> None:
        """All rows whose name contains what was asked for."""
        rows: dict[str, Callable[[], Figures]] = {
            "one-record requests, 4 connections": self._one_record,
            "end-to-end latency, 100 B": self._latency,
            "create a topic of 1,000 partitions": self._create,
            "offset commits, 4 connections": self._offset_commits,
            "rebalances of 200 members": self._joins,
            "takeover from a dead member": self._takeover,
            "transactions of 10 records": self._transactions,
            "10,000 groups": self._groups,
            "compaction, 100 B": self._compaction,
        }
        try:
            started = self._start()
            self._warm_up()
            for size_name, size in SIZES.items():
                for batch_name, batch in BATCHES.items():
                    self._throughput(f"{size_name}, {batch_name}", size, batch, report)
            for name, row in rows.items():
                if self._wanted in name:
                    report(name, row())
            report("process", {**started, **self._loaded_memory()})
        finally:
            self._broker.stop()

    def _start(self) -> Figures:
        """Several starts of an empty broker, and its memory when nobody has asked anything."""
        seconds = [self._broker.start()]
        for _ in range(self._load.starts - 1):
            self._broker.stop()
            seconds.append(self._broker.start())
        time.sleep(SETTLE_SECONDS)
        return {
            "start to first answer": (statistics.median(seconds), START),
            "memory idle": (resident_bytes(self._broker.pid) / 1e6, MEMORY_IDLE),
        }

    def _loaded_memory(self) -> Figures:
        time.sleep(SETTLE_SECONDS)
        return {"memory after load": (resident_bytes(self._broker.pid) / 1e6, MEMORY_LOADED)}

    def _warm_up(self) -> None:
        with topic_on(self._broker, "warm-up") as topic:
            records = self._load.records(1_000) // 2
            produce_librdkafka(self._broker, topic, records=records, size=1_000, batch=16 << 10)
            consume_librdkafka(self._broker, topic, records=records, size=1_000)
        with topic_on(self._broker, "warm-up-small", CONNECTIONS) as topic:
            one_record_requests(self._broker, topic, seconds=self._load.one_record_seconds / 2)

    def _throughput(self, name: str, size: int, batch: int, report: Report) -> None:
        """What one client has produced, both clients consume."""
        if self._wanted not in f"throughput {name}":
            return
        records = self._load.records(size)
        with topic_on(self._broker, f"java-{size}-{batch}") as topic:
            report(
                f"produce {name}, Java",
                produce_java(self._broker, topic, records=records, size=size, batch=batch),
            )
            report(
                f"consume {name}, Java",
                consume_java(self._broker, topic, records=records, size=size),
            )
            report(
                f"consume {name}, librdkafka",
                consume_librdkafka(self._broker, topic, records=records, size=size),
            )
        with topic_on(self._broker, f"librdkafka-{size}-{batch}") as topic:
            report(
                f"produce {name}, librdkafka",
                produce_librdkafka(self._broker, topic, records=records, size=size, batch=batch),
            )

    def _one_record(self) -> Figures:
        with topic_on(self._broker, "one-record", CONNECTIONS) as topic:
            return one_record_requests(self._broker, topic, seconds=self._load.one_record_seconds)

    def _latency(self) -> Figures:
        with topic_on(self._broker, "latency") as topic:
            return end_to_end(self._broker, topic, samples=self._load.latency_samples)

    def _offset_commits(self) -> Figures:
        with topic_on(self._broker, "offset-commits") as topic:
            seconds = self._load.one_record_seconds
            return groups.offset_commits(self._broker, topic, seconds=seconds)

    def _joins(self) -> Figures:
        return groups.joins(self._broker, rounds=self._load.rebalances)

    def _takeover(self) -> Figures:
        with topic_on(self._broker, "takeover", 4) as topic:
            return groups.takeover(self._broker, topic)

    def _transactions(self) -> Figures:
        with topic_on(self._broker, "transactions", 2) as topic:
            seconds = self._load.one_record_seconds
            return groups.transactions(self._broker, topic, seconds=seconds)

    def _groups(self) -> Figures:
        with topic_on(self._broker, "groups") as topic:
            return groups.memory_of_groups(self._broker, topic)

    def _compaction(self) -> Figures:
        """By a broker of its own: what this one has done before must not count as memory."""
        keys = self._load.compacted_keys
        directory = self._directory / "compaction"
        return compact(self._program, directory, records=2 * keys, keys=keys)

    def _create(self) -> Figures:
        """From the request until each of the partitions has a leader in the metadata."""
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
        began = time.perf_counter()
        with topic_on(self._broker, "many", MANY_PARTITIONS) as topic:
            while True:
                found = admin.list_topics(topic, timeout=60).topics[topic].partitions
                if len(found) == MANY_PARTITIONS and all(p.leader >= 0 for p in found.values()):
                    return {"seconds": (time.perf_counter() - began, CREATE)}
