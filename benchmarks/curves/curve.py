"""What a curve is: one measure of a thing at several sizes of it, and the table that shows it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Point = dict[str, float]
"""Figures of one size; the name of each ends with its unit."""


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    sizes: tuple[int, ...]
    measure: Callable[[int], Point]
    minutes: float
    """About how long all sizes take, all together."""

    def sizes_at(self, scale: float) -> list[int]:
        """Sizes up to that part of the largest; two at least, or nothing can be seen to grow."""
        found = [size for size in self.sizes if size <= self.sizes[-1] * scale]
        return found if len(found) > 1 else list(self.sizes[:2])


@dataclass(slots=True)
class Measured:
    curve: Curve
    points: dict[int, Point] = field(default_factory=dict)

    def table(self) -> str:
        names = list(dict.fromkeys(name for point in self.points.values() for name in point))
        cells = [["", *(f"{size:,}" for size in self.points)]]
        for name in names:
            row = [name, *(_number(point.get(name)) for point in self.points.values())]
            cells.append(row)
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        return "\n".join([self.curve.name, *lines])

    def as_json(self) -> dict[str, Any]:
        return {"curve": self.curve.name, "points": self.points}


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
