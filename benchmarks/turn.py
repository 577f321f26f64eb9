"""One turn of one broker: started on an empty directory, run through all rows, stopped.

The two brokers never run at once. Before the figures count, each is warmed up with the same load;
topics are deleted as soon as they have been read, so that the disk stays out of it.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import groups, light_requests, many
from benchmarks.cleaner import compact
from benchmarks.latency import end_to_end
from benchmarks.machine import machine_of, one_record_requests_to_all
from benchmarks.measures import (
    BATCHES,
    CREATE,
    MEMORY_IDLE,
    MEMORY_LOADED,
    SIZES,
    START,
    Figures,
    Load,
    Report,
)
from benchmarks.one_record import PARTITIONS, lone_requests, one_record_requests
from benchmarks.refresh import refresh_at_once
from benchmarks.small_requests import a_core_each
from benchmarks.throughput import (
    by_both_clients,
    consume_librdkafka,
    produce_librdkafka,
    row_names,
)
from benchmarks.topic import topic_on
from confluent_kafka.admin import AdminClient
from tools.kafka_peer.broker_process import BrokerProcess, Program, resident_bytes

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "300000",
    "num.recovery.threads.per.data.dir": "2",
}
MANY_PARTITIONS: Final = 1_000
SETTLE_SECONDS: Final = 2.0


class Turn:
    """The rows of one broker in one round, each reported as soon as it is done."""

    def __init__(
        self, program: Program, directory: Path, load: Load, wanted: str, processes: int
    ) -> None:
        """``wanted`` is a part of the names of rows, or several with ``|`` between them.

        ``processes`` is how many of ours share the machine in the row that says so.
        """
        self._broker = BrokerProcess(program, directory, SETTINGS)
        self._program = program
        self._directory = directory
        self._load = load
        self._wanted = wanted
        self._processes = processes

    def run(self, report: Report) -> None:
        """All rows whose name contains what was asked for."""
        rows: dict[str, Callable[[], Figures]] = {
            "one-record requests, 4 connections": lambda: self._one_record(4),
            "one-record requests, 32 connections": lambda: self._one_record(32),
            "one-record requests, 200 connections": lambda: self._one_record(200),
            "one-record requests, 32 connections, a core each": self._a_core_each,
            f"one-record requests, 32 connections, {self._processes} processes": self._machine,
            "lone request, 1 connection": self._lone_request,
            "lone request, 1 connection, a core each": self._lone_request_a_core_each,
            "Metadata of 6 partitions, 4 connections": self._metadata,
            "ApiVersions, 4 connections": self._api_versions,
            "a producer beside 2,000 clients that refresh": self._refresh,
            "5,000 idle connections": lambda: light_requests.idle_connections(self._broker),
            "end-to-end latency, 100 B": self._latency,
            "create a topic of 1,000 partitions": self._create,
            "offset commits, 4 connections": self._offset_commits,
            "rebalances of 200 members": self._joins,
            "takeover from a dead member": self._takeover,
            "transactions of 10 records": self._transactions,
            "10,000 groups": self._groups,
            "compaction, 100 B": self._compaction,
        }
        if self._load.scale >= 1:
            rows["FindCoordinator, 4 connections"] = self._find_coordinator
            rows["heartbeats of a member, 4 connections"] = self._heartbeats
            rows["9,999 partitions"] = lambda: many.partitions(self._of_its_own("partitions"))
            rows["Metadata of 10,000 topics, 4 connections"] = self._metadata_of_all
        try:
            started = self._start()
            self._warm_up()
            for size_name, size in SIZES.items():
                for batch_name, batch in BATCHES.items():
                    self._throughput(f"{size_name}, {batch_name}", size, batch, report)
            for name, row in rows.items():
                if self._is_wanted(name):
                    report(name, row())
            report("process", {**started, **self._loaded_memory()})
        finally:
            self._broker.stop()

    def _is_wanted(self, *names: str) -> bool:
        return any(part in name for part in self._wanted.split("|") for name in names)

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
        with topic_on(self._broker, "warm-up-small", PARTITIONS) as topic:
            seconds = self._load.one_record_seconds / 2
            one_record_requests(self._broker, topic, connections=4, seconds=seconds)

    def _throughput(self, name: str, size: int, batch: int, report: Report) -> None:
        if self._is_wanted(f"throughput {name}", *row_names(name)):
            records = self._load.records(size)
            by_both_clients(self._broker, name, report, records=records, size=size, batch=batch)

    def _one_record(self, connections: int) -> Figures:
        seconds = self._load.one_record_seconds
        with topic_on(self._broker, f"one-record-{connections}", PARTITIONS) as topic:
            return one_record_requests(
                self._broker, topic, connections=connections, seconds=seconds
            )

    def _a_core_each(self) -> Figures:
        with a_core_each(self._broker):
            return self._one_record(32)

    def _machine(self) -> Figures:
        """Kafka's one process has all cores; ours has one, so that there are several of it."""
        if self._program.name == "kafka":
            return self._one_record(32)
        directory = self._directory / "machine"
        with machine_of(self._program, directory, SETTINGS, self._processes) as machine:
            seconds = self._load.one_record_seconds
            return one_record_requests_to_all(
                machine, self._processes, connections=32, seconds=seconds
            )

    def _lone_request(self) -> Figures:
        with topic_on(self._broker, "lone") as topic:
            return lone_requests(self._broker, topic, samples=self._load.latency_samples)

    def _lone_request_a_core_each(self) -> Figures:
        """Where both run is not left to chance: that alone makes up to three times."""
        with a_core_each(self._broker):
            return self._lone_request()

    def _metadata(self) -> Figures:
        with topic_on(self._broker, "six", 6) as topic:
            seconds = self._load.one_record_seconds
            return light_requests.metadata(self._broker, topic, seconds=seconds)

    def _api_versions(self) -> Figures:
        return light_requests.api_versions(self._broker, seconds=self._load.one_record_seconds)

    def _refresh(self) -> Figures:
        with topic_on(self._broker, "refresh", 6) as topic:
            seconds = self._load.one_record_seconds
            return refresh_at_once(self._broker, topic, seconds=seconds)

    def _find_coordinator(self) -> Figures:
        return light_requests.find_coordinator(self._broker, seconds=self._load.one_record_seconds)

    def _heartbeats(self) -> Figures:
        with topic_on(self._broker, "heartbeats") as topic:
            seconds = self._load.one_record_seconds
            return light_requests.heartbeats(self._broker, topic, seconds=seconds)

    def _of_its_own(self, name: str) -> BrokerProcess:
        """A broker for one row: what the others have left behind must not count."""
        return BrokerProcess(self._program, self._directory / name, SETTINGS)

    def _metadata_of_all(self) -> Figures:
        seconds = self._load.one_record_seconds
        return many.metadata_of_all(self._of_its_own("topics"), seconds=seconds)

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
