"""Mistakes of ours in one of several callbacks: the others must not pay for them."""

from collections.abc import Callable, Iterable
from typing import NoReturn


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make all of the calls; what some have raised is raised behind the last."""
    errors: list[Exception] = []
    for call in calls:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise_first(errors)


def raise_first(errors: list[Exception]) -> NoReturn:
    """Raise the first of what several callbacks have raised; it tells of the others."""
    first = errors[0]
    for other in errors[1:]:
        first.add_note(f"and then {other!r}")
    raise first
