"""Instruments: plain integers that the code counts with, read off when somebody asks.

``counter.value += 1`` is all that the hot path pays. Rates and percentiles are worked out by the
reader, which brings the time. A registry knows every instrument by its name; its size is bounded by
what is measured: the code that registers a metric of a topic or connection also removes it.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.observability.names import Form, MetricName, Tags

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class Counter:
    """What only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    """What goes up and down: a value that is set, or a question that is asked when it is read."""

    __slots__ = ("_ask", "value")

    def __init__(self, ask: Callable[[], float] | None = None) -> None:
        self._ask = ask
        self.value: float = 0

    def read(self) -> float:
        return self.value if self._ask is None else self._ask()


class State:
    """One word out of a few, such as the role in the quorum."""

    __slots__ = ("_ask", "value")

    def __init__(self, ask: Callable[[], str] | None = None) -> None:
        self._ask = ask
        self.value = ""

    def read(self) -> str:
        return self.value if self._ask is None else self._ask()


class Meter:
    """A count whose rate matters: events per second over the last 1, 5 and 15 minutes.

    The averages move when they are read, by the time that has passed since; nobody needs to tick.
    """

    __slots__ = ("_averages", "_counted", "_read_at", "count")

    MINUTES: Final = (1, 5, 15)

    def __init__(self, now: float) -> None:
        self.count = 0
        self._read_at = now
        self._counted = 0
        self._averages: tuple[float, ...] | None = None

    def rates(self, now: float) -> tuple[float, ...]:
        """Events per second over the last 1, 5 and 15 minutes."""
        elapsed = now - self._read_at
        if elapsed <= 0:
            return self._averages or (0.0, 0.0, 0.0)
        current = (self.count - self._counted) / elapsed
        if self._averages is None:
            self._averages = (current, current, current)
        else:
            self._averages = tuple(
                average + (1 - math.exp(-elapsed / (60 * minutes))) * (current - average)
                for average, minutes in zip(self._averages, self.MINUTES, strict=True)
            )
        self._read_at, self._counted = now, self.count
        return self._averages


class Histogram:
    """How values are spread, in buckets that are at most an eighth of their value wide."""

    __slots__ = ("_buckets", "count", "largest", "shown_per", "total")

    def __init__(self, shown_per: int = 1) -> None:
        self.shown_per = shown_per
        """What is recorded is so many times finer than what is shown."""
        self.count = 0
        self.total = 0
        self.largest = 0
        self._buckets: list[int] = [0] * 16

    def record(self, value: int) -> None:
        """Count one value; below 0 counts as 0."""
        value = max(value, 0)
        shift = max(0, value.bit_length() - 4)
        bucket = (shift << 3) + (value >> shift)
        if bucket >= len(self._buckets):
            self._buckets.extend([0] * (bucket + 1 - len(self._buckets)))
        self._buckets[bucket] += 1
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, fraction: float) -> float:
        """The value that this fraction of all values does not exceed, within a bucket's width."""
        wanted = math.ceil(self.count * fraction)
        passed = 0
        for bucket, count in enumerate(self._buckets):
            passed += count
            if count and passed >= wanted:
                shift = max(0, (bucket >> 3) - 1)
                highest = ((bucket - (shift << 3) + 1) << shift) - 1
                return min(highest, self.largest)
        return 0.0


Value = tuple[Tags, float]


class Series:
    """Many values of one metric, such as one for each partition: read one by one when asked.

    ``read`` may give None for what it has passed over, so that nobody waits for it in between.
    """

    __slots__ = ("form", "read")

    def __init__(self, form: Form, read: Callable[[], Iterator[Value | None]]) -> None:
        self.form = form
        self.read = read


Instrument = Counter | Gauge | State | Meter | Histogram | Series


class Sample(NamedTuple):
    """One number of a metric, as it was when it was read."""

    metric: MetricName
    form: Form
    value: float
    suffix: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class Registry:
    """Every instrument of a node by its name; those that differ in their tags alone together."""

    def __init__(self) -> None:
        self._families: dict[MetricName, dict[Tags, Instrument]] = {}

    def register(self, name: MetricName, instrument: Instrument) -> None:
        family = self._families.setdefault(name._replace(tags=()), {})
        assert name.tags not in family, f"registered twice: {name}"
        family[name.tags] = instrument

    def remove(self, name: MetricName) -> None:
        """Forget a metric whose topic, partition or connection is gone; harmless when unknown."""
        key = name._replace(tags=())
        family = self._families.get(key)
        if family is not None:
            family.pop(name.tags, None)
            if not family:
                del self._families[key]

    def counter(self, name: MetricName) -> Counter:
        counter = Counter()
        self.register(name, counter)
        return counter

    def gauge(self, name: MetricName, ask: Callable[[], float] | None = None) -> Gauge:
        gauge = Gauge(ask)
        self.register(name, gauge)
        return gauge

    def histogram(self, name: MetricName) -> Histogram:
        histogram = Histogram()
        self.register(name, histogram)
        return histogram

    def series(
        self,
        name: MetricName,
        read: Callable[[], Iterator[Value | None]],
        form: Form = Form.GAUGE,
    ) -> None:
        self.register(name, Series(form, read))

    def names(self) -> list[MetricName]:
        return sorted(
            name._replace(tags=tags) for name, family in self._families.items() for tags in family
        )

    def get(self, name: MetricName) -> Instrument | None:
        return self._families.get(name._replace(tags=()), {}).get(name.tags)

    def families(self) -> list[tuple[MetricName, Form]]:
        """The metrics without their tags, and how their numbers are to be read."""
        return [(name, _form(next(iter(each.values())))) for name, each in self._families.items()]

    def samples(self, name: MetricName) -> Iterator[Sample | None]:
        """Read all metrics that differ from ``name`` in their tags alone.

        One by one: what comes and goes meanwhile may be there or not. None: one was passed over.
        """
        for tags, instrument in list(self._families.get(name, {}).items()):
            yield from _samples(name._replace(tags=tags), instrument)


def _form(instrument: Instrument) -> Form:
    match instrument:
        case Counter() | Meter():
            return Form.COUNTER
        case Gauge():
            return Form.GAUGE
        case State():
            return Form.STATE
        case Histogram():
            return Form.SUMMARY
        case Series():
            return instrument.form


def _samples(name: MetricName, instrument: Instrument) -> Iterator[Sample | None]:
    match instrument:
        case Counter():
            yield Sample(name, Form.COUNTER, instrument.value)
        case Gauge():
            yield Sample(name, Form.GAUGE, instrument.read())
        case State():
            label = (name.attribute or name.name).replace("-", "_").lower()
            yield Sample(name, Form.STATE, 1, labels=((label, instrument.read()),))
        case Meter():
            yield Sample(name, Form.COUNTER, instrument.count)
        case Histogram():
            yield Sample(name, Form.SUMMARY, instrument.count, "_count")
            per = instrument.shown_per
            total = instrument.total if per == 1 else instrument.total / per
            yield Sample(name, Form.SUMMARY, total, "_sum")
            for fraction in QUANTILES:
                value = instrument.percentile(fraction)
                value = value if per == 1 else value / per
                yield Sample(name, Form.SUMMARY, value, labels=(("quantile", str(fraction)),))
        case Series():
            for read in instrument.read():
                if read is None:
                    yield None
                else:
                    tags, value = read
                    yield Sample(name, instrument.form, value, labels=tags)
