"""A registry as a /metrics page: Prometheus' text format, version 0.0.4. No I/O, no clock.

The page is made in slices, each of a bounded number of lines and a bounded time, so that its sender
can do other things in between. A metric has a bounded number of lines too: those beyond are left
out, and their number stands at the end of the page.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.observability.metrics import Registry, Sample
from ottla.observability.names import Dialect, Form, MetricName, label_name, prometheus_name

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_LINES: Final = 256
"""Lines of a slice; what is passed over counts as one."""
SLICE_SECONDS: Final = 0.001
CLOCK_LINES: Final = 16
"""The clock is looked at after so many lines."""
LINES_MAX: Final = 20_000
"""Of one metric."""
DROPPED: Final = "ottla_metrics_dropped_series"


def exposition(registry: Registry, dialect: Dialect = Dialect.STRIMZI) -> str:
    """The page with every metric of the registry as it is now, at once."""
    return "".join(slices(registry, lambda: 0.0, dialect))


def slices(
    registry: Registry,
    now: Callable[[], float],
    dialect: Dialect = Dialect.STRIMZI,
    lines_max: int = LINES_MAX,
) -> Iterator[str]:
    """The same in slices; each is as of when it is asked for."""
    lines: list[str] = []
    done, dropped, ends_at = 0, 0, now() + SLICE_SECONDS
    for family, form, names in _families(registry, dialect):
        lines.append(f"# TYPE {family} {form.value}\n")
        shown = 0
        for sample in (sample for name in names for sample in registry.samples(name)):
            done += 1
            if sample is not None:
                shown += 1
                if shown > lines_max:
                    dropped += 1
                else:
                    lines.append(_line(family, sample, dialect))
            if done >= SLICE_LINES or (done % CLOCK_LINES == 0 and now() >= ends_at):
                yield "".join(lines)
                lines.clear()
                done, ends_at = 0, now() + SLICE_SECONDS
    lines.append(f"# TYPE {DROPPED} gauge\n{DROPPED} {dropped}\n")
    yield "".join(lines)


def _families(registry: Registry, dialect: Dialect) -> list[tuple[str, Form, list[MetricName]]]:
    """What the page has, by the names that it has there; lines of one name stand together."""
    found: dict[str, tuple[Form, list[MetricName]]] = {}
    for name, form in registry.families():
        _, names = found.setdefault(prometheus_name(name, form, dialect), (form, []))
        names.append(name)
    return [(family, form, names) for family, (form, names) in sorted(found.items())]


def _line(family: str, sample: Sample, dialect: Dialect) -> str:
    labels = _labels((*sample.metric.tags, *sample.labels), dialect)
    return f"{family}{sample.suffix}{labels} {_number(sample.value)}\n"


def _labels(pairs: Iterable[tuple[str, str]], dialect: Dialect) -> str:
    text = ",".join(f'{label_name(name, dialect)}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))  # True is 1
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
