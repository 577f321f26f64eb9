"""SASL/PLAIN (RFC 4616): ``[authzid] NUL user NUL password``, in one message."""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from ottla.security.mechanism import Identity, LoginRefused, user

_TOKENS_MAX: Final = 4
"""As Kafka counts them: what is behind the third NUL is one."""
_USER_OPTION: Final = "user_"


def plain_users(options: Mapping[str, str]) -> dict[str, bytes]:
    """The passwords that the options of a PlainLoginModule give."""
    return {
        name.removeprefix(_USER_OPTION): password.encode()
        for name, password in options.items()
        if name.startswith(_USER_OPTION)
    }


class PlainServer:
    def __init__(self, passwords: Mapping[str, bytes]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def evaluate(self, response: bytes) -> bytes:
        # What is no UTF-8 is nobody's name; Java takes a replacement for it too.
        tokens = response.decode("utf-8", "replace").split("\0", _TOKENS_MAX - 1)
        if len(tokens) != 3:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, name, password = tokens
        if not name:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        given = password.encode()
        # An unknown user costs as much time as a wrong password does.
        wanted = self._passwords.get(name)
        is_right = compare_digest(given, given + b"\0" if wanted is None else wanted)
        if wanted is None or not is_right:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.identity = Identity(user(name))
        return b""


class PlainClient:
    def __init__(self, name: str, password: str) -> None:
        self._name = name
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._name}\0{self._password}".encode()

    def evaluate(self, _challenge: bytes) -> bytes | None:
        return None
