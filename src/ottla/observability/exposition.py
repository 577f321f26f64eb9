"""A registry as a /metrics page: Prometheus' text format, version 0.0.4. No I/O, no clock."""

from collections.abc import Iterable
from typing import Final

from ottla.observability.metrics import Registry, Sample
from ottla.observability.names import Form, prometheus_name

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(registry: Registry) -> str:
    """The page with every metric of the registry as it is now."""
    families: dict[str, tuple[Form, list[str]]] = {}
    for sample in registry.samples():
        family = prometheus_name(sample.metric, sample.form)
        _, lines = families.setdefault(family, (sample.form, []))
        lines.append(_line(family, sample))
    return "".join(
        f"# TYPE {family} {form.value}\n{''.join(lines)}"
        for family, (form, lines) in sorted(families.items())
    )


def _line(family: str, sample: Sample) -> str:
    labels = _labels((*sample.metric.tags, *sample.labels))
    return f"{family}{sample.suffix}{labels} {_number(sample.value)}\n"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{_label_name(name)}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _label_name(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
