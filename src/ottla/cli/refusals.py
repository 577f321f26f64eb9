"""Several items at once: what was done is shown, what was refused is said and ends with 1."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.cli.output import Output

if TYPE_CHECKING:
    from ottla.common.errors import ApiError

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
                output.error(error.code.name, _explained(error), **{noun: _name(item)})
        return dict(some.done)


def _explained(error: "ApiError") -> str:
    """The broker's words, and the setting that was probably meant when it knows none such."""
    text = str(error)
    unknown = re.search(r"Unknown (topic|group) config name: (\S+)", text)
    if unknown is None:
        return text
    from difflib import get_close_matches

    from ottla.config.group import GroupConfig
    from ottla.config.topic import TopicConfig

    known = (TopicConfig if unknown[1] == "topic" else GroupConfig).keys
    near = get_close_matches(unknown[2], known, n=1)
    return f"{text}; did you mean {near[0]}?" if near else text


def _name(item: Any) -> str:
    name = getattr(item, "name", None)
    return name if isinstance(name, str) else str(item)


def finish(output: Output) -> None:
    """End with 1 when something was refused."""
    if output.failed:
        raise SystemExit(1)
