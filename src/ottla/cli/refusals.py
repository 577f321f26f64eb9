"""Several items at once: what was done is shown, what was refused is said and ends with 1."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from ottla.cli.output import Output

K = TypeVar("K")
V = TypeVar("V")


def report_refusals(
    output: Output,
    noun: str,
    call: Callable[[], Mapping[K, V]],
    *,
    passed_over: Collection[int] = (),
) -> dict[K, V]:
    """What the call did; its refusals are reported, except those of codes that are passed over."""
    from ottla.client.errors import SomeRefused

    try:
        return dict(call())
    except SomeRefused as some:
        for item, error in some.refused.items():
            if error.code not in passed_over:
                output.error(error.code.name, str(error), **{noun: _name(item)})
        return dict(some.done)


def _name(item: Any) -> str:
    name = getattr(item, "name", None)
    return name if isinstance(name, str) else str(item)


def finish(output: Output) -> None:
    """End with 1 when something was refused."""
    if output.failed:
        raise SystemExit(1)
