"""What is measured, in which unit, which way is better, and what we want against Apache Kafka.

A row is one thing that is run; it gives one or more figures. Names are the keys of the JSON that is
written, so that results of different days can be laid side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Final

SIZES: Final = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}
BATCHES: Final = {"16 KiB": 16 << 10, "256 KiB": 256 << 10}


@dataclass(frozen=True, slots=True)
class Measure:
    """A unit with its sense: ``wanted`` is the ratio ours / theirs that we are after."""

    unit: str
    higher_is_better: bool
    wanted: float
    of_itself: bool = False
    """Ours itself is after ``wanted``, whatever theirs is."""

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.wanted if self.higher_is_better else ratio <= self.wanted

    def of_builds(self) -> "Measure":
        """The same between two builds of ours: none of it may get worse, beside the noise."""
        if self.wanted == inf or self.of_itself:
            return self
        return replace(self, wanted=BUILDS_WANTED if self.higher_is_better else 1 / BUILDS_WANTED)


BUILDS_WANTED: Final = 0.97
THROUGHPUT: Final = Measure("MB/s", higher_is_better=True, wanted=1.0)
CPU_PER_GB: Final = Measure("CPU s/GB", higher_is_better=False, wanted=0.5)
REQUESTS: Final = Measure("requests/s", higher_is_better=True, wanted=1.5)
CPU_PER_REQUEST: Final = Measure("CPU us/request", higher_is_better=False, wanted=0.5)
CLIENT_PER_REQUEST: Final = Measure("client us/request", higher_is_better=False, wanted=inf)
"""What our client takes is told, and not compared: it should be a small part."""
LATENCY: Final = Measure("ms", higher_is_better=False, wanted=1.0)
LATENCY_TAIL: Final = Measure("ms", higher_is_better=False, wanted=1.0)
START: Final = Measure("s", higher_is_better=False, wanted=0.1)
MEMORY_IDLE: Final = Measure("MB", higher_is_better=False, wanted=1 / 6)
MEMORY_LOADED: Final = Measure("MB", higher_is_better=False, wanted=1.0)
COLD_READERS: Final = Measure("ms", higher_is_better=False, wanted=1.5)
JOINS: Final = Measure("joins/s", higher_is_better=True, wanted=1.0)
MEMORY_GROUPS: Final = Measure("MB", higher_is_better=False, wanted=1.0)
MEMORY_CONNECTIONS: Final = Measure("MB", higher_is_better=False, wanted=1.0)
MEMORY_PARTITIONS: Final = Measure("MB", higher_is_better=False, wanted=0.25)
TAKEOVER: Final = Measure("s", higher_is_better=False, wanted=1.0)
TRANSACTIONS: Final = Measure("transactions/s", higher_is_better=True, wanted=1.0)
CLEANER: Final = Measure("MB/s", higher_is_better=True, wanted=1.0)
CREATE: Final = Measure("s", higher_is_better=False, wanted=1.0)
FAILOVER: Final = Measure("s", higher_is_better=False, wanted=1.0)
MEMORY_BROKER: Final = Measure("MB", higher_is_better=False, wanted=1 / 3)
ROWS_PER_SECOND: Final = Measure("rows/s", higher_is_better=True, wanted=1.0)
BROKER_CPU: Final = Measure("broker CPU s/GB", higher_is_better=False, wanted=1.0)
SPARK_CPU: Final = Measure("Spark CPU s/GB", higher_is_better=False, wanted=1.0)
MICRO_BATCH: Final = Measure("ms", higher_is_better=False, wanted=1.0)
BROKER_CPU_OF_BATCH: Final = Measure("broker CPU ms", higher_is_better=False, wanted=1.0)
TLS_CPU_PER_GB: Final = Measure("CPU s/GB", higher_is_better=False, wanted=0.7)
HANDSHAKES: Final = Measure("handshakes/s", higher_is_better=True, wanted=1.0)
LOGINS: Final = Measure("logins/s", higher_is_better=True, wanted=1.0)
CPU_PER_ENTRY: Final = Measure("CPU us each", higher_is_better=False, wanted=1.0)
CLIENT_PER_ENTRY: Final = Measure("client us each", higher_is_better=False, wanted=inf)
OF_NO_ACLS: Final = Measure("share", higher_is_better=True, wanted=0.95, of_itself=True)
OF_NO_AUTHORIZER: Final = Measure("share", higher_is_better=False, wanted=inf)

Figures = dict[str, tuple[float, Measure]]
"""What one row gave: the name of each figure, its value and its measure."""
Report = Callable[[str, Figures], None]
"""Called with the name of a row, as soon as it is done."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything; ``scale`` shrinks it for a quick look."""

    scale: float = 1.0

    def records(self, size: int) -> int:
        """Enough bytes for a few seconds, of which small records make fewer."""
        payload = {100: 120_000_000, 1_000: 400_000_000, 10_000: 600_000_000}[size]
        return max(20_000, int(payload * self.scale) // size)

    @property
    def compacted_keys(self) -> int:
        return max(100_000, int(1_000_000 * self.scale))

    @property
    def one_record_seconds(self) -> float:
        return max(1.5, 5 * self.scale)

    @property
    def latency_samples(self) -> int:
        return max(1_000, int(6_000 * self.scale))

    @property
    def rebalances(self) -> int:
        return max(5, int(20 * self.scale))

    @property
    def turns(self) -> int:
        return max(9, int(30 * self.scale))

    @property
    def starts(self) -> int:
        return 3 if self.scale >= 1 else 1
