"""Figures of several contenders for each row, held against one of them.

``report`` knows two brokers; here several ways lead to the same rows, and each row names whom the
others are measured by.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measures import Figures, Measure


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one contender, of all rounds."""

    row: str
    contender: str
    figure: str
    measure: Measure
    values: list[float]
    against: str
    theirs: list[float]
    """The same figure of whom it is held against; empty for none."""
    wanted: float | None

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        theirs = statistics.median(self.theirs) if self.theirs else 0.0
        return self.value / theirs if theirs else None

    @property
    def is_met(self) -> bool:
        return self.wanted is None or (self.ratio or 0.0) >= self.wanted


@dataclass(slots=True)
class Contest:
    """``wanted`` are ratios, by row and contender, of the first figure."""

    against: str
    wanted: dict[tuple[str, str], float] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    """By row, whom the others are held against there."""
    _values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    _measures: dict[tuple[str, str, str], Measure] = field(default_factory=dict)

    def add(self, row: str, contender: str, figures: Figures) -> None:
        for name, (value, measure) in figures.items():
            self._measures[row, contender, name] = measure
            self._values.setdefault((row, contender, name), []).append(value)

    def lines(self) -> Iterator[Line]:
        seen: set[tuple[str, str]] = set()
        for (row, contender, figure), values in self._values.items():
            measure = self._measures[row, contender, figure]
            other = self.instead.get(row, self.against)
            theirs = self._values.get((row, other, figure), [])
            first = (row, contender) not in seen
            seen.add((row, contender))
            wanted = self.wanted.get((row, contender)) if first else None
            yield Line(row, contender, figure, measure, values, other, theirs, wanted)

    def table(self) -> str:
        """A line for each contender of a row; ``*`` marks what falls short of what is wanted."""
        found: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines():
            found.setdefault((line.row, line.contender), []).append(line)
        cells = [("row", "contender", "ratio", "wanted", "figures")]
        for (row, contender), lines in found.items():
            first = lines[0]
            shown = ", ".join(f"{_number(each)} {each.measure.unit}" for each in lines)
            ratio = "" if first.ratio is None else f"{first.ratio:.2f}"
            wanted = "" if first.wanted is None else f">= {first.wanted:.2f}"
            cells.append((row, contender, ratio, wanted + ("" if first.is_met else " *"), shown))
        widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        )

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "row": line.row,
                "contender": line.contender,
                "figure": line.figure,
                "unit": line.measure.unit,
                "values": line.values,
                "against": line.against,
                "ratio": None if line.ratio is None else round(line.ratio, 4),
                "wanted": line.wanted,
                "met": line.is_met,
            }
            for line in self.lines()
        ]


def _number(line: Line) -> str:
    value = line.value
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
