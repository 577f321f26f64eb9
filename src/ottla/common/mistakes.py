"""Mistakes of ours in one of several callbacks: the others must not pay for them."""

from typing import NoReturn


def raise_first(errors: list[Exception]) -> NoReturn:
    """Raise the first of what several callbacks have raised; it tells of the others."""
    first = errors[0]
    for other in errors[1:]:
        first.add_note(f"and then {other!r}")
    raise first
