"""Principals as people write them: ``User:alice``, or ``alice`` alone."""

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ottla.common.authorization import Principal

_USER: Final = "User"


def principal_name(text: str) -> "Principal":
    """The type of an option that names a principal; users need not say that they are."""
    from ottla.common.authorization import Principal

    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = _USER, kind
    if not kind or not name:
        raise click.BadParameter(f"{text!r} is no principal: User:NAME, or NAME")
    return Principal(kind, name)
