"""Principals as people write them: ``User:alice``, or ``alice`` alone."""

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from ottla.common.authorization import Principal

    _Type = click.ParamType["Principal"]
else:
    _Type = click.ParamType

_USER: Final = "User"


class PrincipalType(_Type):
    """A principal; users need not say that they are."""

    name = "principal"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Principal":
        from ottla.common.authorization import Principal

        if isinstance(value, Principal):
            return value
        kind, colon, name = str(value).partition(":")
        if not colon:
            kind, name = _USER, kind
        if not kind or not name:
            self.fail(f"{value!r} is no principal: User:NAME, or NAME", param, ctx)
        return Principal(kind, name)


PRINCIPAL: Final = PrincipalType()
