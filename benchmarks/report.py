"""Results laid side by side: a table for people, JSON for later, a plot for the eye."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final

from benchmarks.measures import Figures, Measure
from tools.kafka_peer.setup import PROJECT, VERSION

from ottla.cli.version import compiled_modules

RESULTS: Final = PROJECT / "benchmarks" / "results"
OURS = "ottla"


@dataclass(slots=True)
class Results:
    """Every figure of every round, by row, name and broker.

    ``against`` names the other broker: Apache Kafka's, or another build of ours.
    """

    against: str = "kafka"
    values: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=dict)
    measures: dict[tuple[str, str], Measure] = field(default_factory=dict)

    def add(self, program: str, row: str, figures: Figures) -> None:
        for name, (value, measure) in figures.items():
            self.measures[row, name] = measure
            found = self.values.setdefault((row, name), {OURS: [], self.against: []})
            found[program].append(value)

    def compared(self) -> Iterator["Comparison"]:
        for (row, name), found in self.values.items():
            theirs = found[self.against]
            if found[OURS] and theirs:
                measure = self.measures[row, name]
                if self.against != "kafka":
                    measure = measure.of_builds()
                yield Comparison(row, name, measure, found[OURS], theirs)


@dataclass(frozen=True, slots=True)
class Comparison:
    row: str
    name: str
    measure: Measure
    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """Ours against theirs, each by its median."""
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def spread(self) -> tuple[float, float]:
        """The ratio at its worst and at its best among the rounds that were run."""
        return min(self.ours) / max(self.theirs), max(self.ours) / min(self.theirs)

    @property
    def is_met(self) -> bool:
        judged = statistics.median(self.ours) if self.measure.of_itself else self.ratio
        return self.measure.is_met(judged)


def table(results: Results) -> str:
    """One line for each figure; ``*`` marks what falls short of what is wanted."""
    head = ("row", "figure", results.against, OURS, "unit", "ratio", "spread", "wanted", "")
    lines = [head]
    for each in results.compared():
        low, high = each.spread
        sign = ">=" if each.measure.higher_is_better else "<="
        lines.append(
            (
                each.row,
                each.name,
                _with_spread(each.theirs),
                _with_spread(each.ours),
                each.measure.unit,
                f"{each.ratio:.2f}",
                f"{low:.2f}-{high:.2f}",
                f"{sign} {each.measure.wanted:.2f}" if isfinite(each.measure.wanted) else "",
                "" if each.is_met else "*",
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _with_spread(values: list[float]) -> str:
    """The median; of several rounds also the least and the most."""
    middle = _number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({_number(min(values))}-{_number(max(values))})"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def circumstances() -> dict[str, Any]:
    """When, of which commit, where and with what."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": _machine(),
        "versions": _versions(),
    }


def stem_of(found: dict[str, Any]) -> Path:
    """What a result's files are called by: the moment and the commit."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS / f"{found['when'][:19].replace(':', '')}-{found['commit']}"


def as_json(results: Results, *, rounds: int, scale: float) -> dict[str, Any]:
    return {
        **circumstances(),
        "rounds": rounds,
        "scale": scale,
        "figures": [
            {
                "row": each.row,
                "figure": each.name,
                "unit": each.measure.unit,
                "ottla": each.ours,
                results.against: each.theirs,
                "ratio": round(each.ratio, 4),
                "wanted": each.measure.wanted if isfinite(each.measure.wanted) else None,
                "met": each.is_met,
            }
            for each in results.compared()
        ],
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True, text=True, check=False, cwd=PROJECT,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, str | int]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "memory_gib": round(pages / (1 << 30)),
        "kernel": platform.release(),
    }


def _versions() -> dict[str, str]:
    import confluent_kafka

    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return {
        "kafka": VERSION,
        "java": (done.stderr.splitlines() or ["unknown"])[0],
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "hot modules": "compiled" if compiled_modules() else "pure Python",
    }


def write(
    results: Results, *, rounds: int, scale: float, kind: str | None = None
) -> tuple[Path, Path]:
    """The JSON and the plot, named by the day and the commit."""
    found = as_json(results, rounds=rounds, scale=scale)
    stem = stem_of(found)
    stem = stem if kind is None else stem.with_name(f"{stem.name}-{kind}")
    data, picture = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".png")
    data.write_text(json.dumps(found, indent=1) + "\n")
    plot(results, picture)
    return data, picture


def plot(results: Results, path: Path) -> None:
    """Ratios as bars on a logarithmic axis, turned so that to the right of 1 is always better."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = list(results.compared())[::-1]
    advantages = [r.ratio if r.measure.higher_is_better else 1 / r.ratio for r in rows]
    figure, axes = plt.subplots(figsize=(11, 1 + 0.22 * len(rows)))
    colours = ["#2a7f62" if value >= 1 else "#c3423f" for value in advantages]
    axes.barh(range(len(rows)), [value - 1 for value in advantages], left=1, color=colours)
    axes.set_yticks(range(len(rows)), [f"{r.row}: {r.name} ({r.measure.unit})" for r in rows])
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel(f"times as good as Apache Kafka {VERSION} (logarithmic)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
