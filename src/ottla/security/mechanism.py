"""What all SASL mechanisms have in common, on either side of a connection."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.common.authorization import Principal

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
USER: Final = "User"
"""The type of principals that have logged in."""
HANDSHAKE_VERSION: Final = 1
"""Of SaslHandshake: the one after which tokens come in requests."""


class LoginRefused(Exception):
    """A login that fails; the text is for the client.

    Without a text the client hears the same words whatever was wrong.
    """


class Identity(NamedTuple):
    """Who has logged in, and until when that holds."""

    principal: Principal
    expires_at_ms: int | None = None
    """By the wall clock; None for credentials that do not expire."""


class ServerMechanism(Protocol):
    """One login, as the server sees it."""

    @property
    def identity(self) -> Identity | None:
        """Who it is, once all is said; None before."""
        ...

    def evaluate(self, response: bytes) -> bytes:
        """What the client is answered; LoginRefused when it is not let in."""
        ...


NewServerMechanism = Callable[[], ServerMechanism]
"""Begins a login."""


class ClientMechanism(Protocol):
    """One login, as the client sees it."""

    def first(self) -> bytes:
        """What it begins with."""
        ...

    def evaluate(self, challenge: bytes) -> bytes | None:
        """What follows, or None when all is said; LoginRefused when the server is not the one."""
        ...


def user(name: str, *, token_authenticated: bool = False) -> Principal:
    return Principal(USER, name, token_authenticated)
