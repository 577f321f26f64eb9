"""One turn of one broker with secured listeners, warmed up as it is measured."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import guarded
from benchmarks.entries import CLIENTS, handshakes, logins
from benchmarks.measures import BATCHES, TLS_CPU_PER_GB, Figures, Load, Report
from benchmarks.secured import MECHANISMS, SecuredBroker
from benchmarks.throughput import (
    by_both_clients,
    consume_librdkafka,
    produce_librdkafka,
    row_names,
)
from benchmarks.topic import topic_on
from tools.kafka_peer.broker_process import Program

SIZE: Final = 1_000
Entries = Callable[..., Figures]
"""Entries for so many ``seconds``."""


class SecurityTurn:
    """The rows of one broker in one round, each reported as soon as it is done."""

    def __init__(self, program: Program, directory: Path, load: Load, wanted: str) -> None:
        """``wanted`` is a part of the names of rows, or several with ``|`` between them."""
        self._program = program
        self._directory = directory
        self._load = load
        self._wanted = wanted

    def run(self, report: Report) -> None:
        """All rows whose name contains what was asked for."""
        throughput = {
            f"1 KB, {name}, TLS 1.3": batch
            for name, batch in BATCHES.items()
            if self._is_wanted(*row_names(f"1 KB, {name}, TLS 1.3"))
        }
        with SecuredBroker(self._program, self._directory / "broker") as broker:
            if throughput:
                self._warm_up(broker)
            for name, batch in throughput.items():
                self._throughput(broker, name, batch, report)
            for name, entries in self._entries(broker).items():
                if self._is_wanted(name):
                    entries(seconds=self._load.one_record_seconds / 2)
                    report(name, entries(seconds=self._load.one_record_seconds))
        if self._is_wanted(*guarded.SETTINGS):
            rows = guarded.guarded_requests(
                self._program,
                self._directory,
                seconds=self._load.one_record_seconds,
                turns=self._load.turns,
            )
            for name, figures in rows.items():
                report(name, figures)

    def _is_wanted(self, *names: str) -> bool:
        return any(part in name for part in self._wanted.split("|") for name in names)

    def _warm_up(self, broker: SecuredBroker) -> None:
        settings = broker.over_tls().librdkafka
        records = self._load.records(SIZE) // 2
        with topic_on(broker, "warm-up") as topic:
            produce_librdkafka(
                broker, topic, records=records, size=SIZE, batch=16 << 10, settings=settings
            )
            consume_librdkafka(broker, topic, records=records, size=SIZE, settings=settings)

    def _throughput(self, broker: SecuredBroker, name: str, batch: int, report: Report) -> None:
        def judged(row: str, figures: Figures) -> None:
            report(row, figures | {"cpu": (figures["cpu"][0], TLS_CPU_PER_GB)})

        by_both_clients(
            broker,
            name,
            judged,
            records=self._load.records(SIZE),
            size=SIZE,
            batch=batch,
            settings=broker.over_tls(),
        )

    def _entries(self, broker: SecuredBroker) -> dict[str, Entries]:
        rows: dict[str, Entries] = {
            f"handshakes of TLS 1.3, {CLIENTS} clients": partial(handshakes, broker)
        }
        for mechanism in MECHANISMS:
            rows[f"logins by {mechanism}, {CLIENTS} clients"] = partial(logins, broker, mechanism)
        return rows
