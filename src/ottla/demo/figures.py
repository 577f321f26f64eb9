"""What the demo shows: plain figures in, lines of text out."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.demo.results import Sale

RATE_SECONDS: Final = 5.0
"""A rate is that of so many last seconds."""
BAR: Final = 24
COUNTRIES_MAX: Final = 6
NARROWEST: Final = 40


class Rates:
    """Counts that grow, sampled now and then, to rates."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def sample(self, now: float, counts: Mapping[str, int]) -> dict[str, float]:
        """The rate of each count per second; nothing of those that are seen for the first time."""
        self._samples.append((now, dict(counts)))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()
        then, before = self._samples[0]
        passed = now - then
        return {
            name: (count - before.get(name, count)) / passed if passed > 0 else 0.0
            for name, count in counts.items()
        }


class Stage(NamedTuple):
    """A topic, or a part of the pipeline."""

    name: str
    records: int
    per_second: float
    note: str = ""


class Figures(NamedTuple):
    """All that is shown at one moment."""

    seconds: float
    topics: Sequence[Stage] = ()
    pipeline: str = ""
    """In a word, how it is."""
    stages: Sequence[Stage] = ()
    orders: int = 0
    amount: int = 0
    by_country: Sequence[tuple[str, int]] = ()
    newest: Sale | None = None
    trouble: str = ""

    def topic(self, name: str) -> Stage:
        return next((each for each in self.topics if each.name == name), Stage(name, 0, 0.0))


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def screen(figures: Figures, width: int) -> list[str]:
    """Lines of a small display, none longer than ``width``."""
    lines = [f"{clock_text(figures.seconds)} since the start   Ctrl-C stops", ""]
    lines += _table("topic", "records", figures.topics)
    lines += ["", f"pipeline: {figures.pipeline}"]
    if figures.stages:
        lines += _table("stage", "rows", figures.stages)
    if figures.orders:
        lines += ["", *_sales(figures)]
    if figures.trouble:
        lines += ["", f"trouble: {figures.trouble}"]
    width = max(width, NARROWEST)
    return [line if len(line) < width else line[: width - 2] + "…" for line in lines]


def _table(title: str, unit: str, stages: Sequence[Stage]) -> list[str]:
    wide = max([len(title), *(len(each.name) for each in stages)])
    lines = [f"  {title:<{wide}} {unit:>11} {'per second':>11}"]
    for each in stages:
        counts = f"{each.records:>11,} {each.per_second:>11,.0f}"
        lines.append(f"  {each.name:<{wide}} {counts}   {each.note}".rstrip())
    return lines


def _sales(figures: Figures) -> list[str]:
    most = max((amount for _, amount in figures.by_country), default=0)
    lines = [
        f"back from Spark, in the last minute: {figures.orders:,} orders of {money(figures.amount)}"
    ]
    for country, amount in figures.by_country[:COUNTRIES_MAX]:
        bar = "█" * max(1, round(BAR * amount / most)) if most else ""
        lines.append(f"  {country:<3} {money(amount):>14} {bar}")
    if figures.newest is not None:
        order_id, name, country, amount = figures.newest
        lines.append(f"  newest: {order_id} of {name}, {country}, {money(amount)}")
    return lines


def line(figures: Figures, written: Sequence[str], enriched: str, dead: str) -> str:
    """The same in one line, for logs."""
    topics = [figures.topic(name) for name in written]
    records = sum(each.records for each in topics)
    per_second = sum(each.per_second for each in topics)
    back = figures.topic(enriched)
    parts = [
        clock_text(figures.seconds),
        f"written {records:,} ({per_second:,.0f}/s)",
        f"enriched {back.records:,} ({back.per_second:,.0f}/s)",
        f"dead letters {figures.topic(dead).records:,}",
        f"last minute {figures.orders:,} orders of {money(figures.amount)}",
        f"pipeline {figures.pipeline}",
    ]
    if figures.trouble:
        parts.append(f"trouble: {figures.trouble}")
    return "   ".join(parts)
