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
THROUGHPUT: Final = {f"1 KB, {name}, TLS 1.3": batch for name, batch in BATCHES.items()}
ENTRIES: Final[dict[str, Callable[..., Figures]]] = {
    f"handshakes of TLS 1.3, {CLIENTS} clients": handshakes,
    **{
        f"logins by {mechanism}, {CLIENTS} clients": partial(logins, mechanism=mechanism)
        for mechanism in MECHANISMS
    },
}


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
        throughput = [name for name in THROUGHPUT if self._is_wanted(*row_names(name))]
        entries = [name for name in ENTRIES if self._is_wanted(name)]
        if throughput or entries:
            with SecuredBroker(self._program, self._directory / "broker") as broker:
                if throughput:
                    self._warm_up(broker)
                for name in throughput:
                    self._throughput(broker, name, report)
                seconds = self._load.one_record_seconds
                for name in entries:
                    ENTRIES[name](broker, seconds=seconds / 2)
                    report(name, ENTRIES[name](broker, seconds=seconds))
        if self._is_wanted(*guarded.SETTINGS):
            rows = guarded.guarded_requests(
                self._program,
                self._directory,
                warm_up_seconds=2 * self._load.one_record_seconds,
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

    def _throughput(self, broker: SecuredBroker, name: str, report: Report) -> None:
        def judged(row: str, figures: Figures) -> None:
            report(row, figures | {"cpu": (figures["cpu"][0], TLS_CPU_PER_GB)})

        by_both_clients(
            broker,
            name,
            judged,
            records=self._load.records(SIZE),
            size=SIZE,
            batch=THROUGHPUT[name],
            settings=broker.over_tls(),
        )
