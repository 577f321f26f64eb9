"""A SCRAM login as the client sees it."""

import base64
from functools import lru_cache
from hmac import compare_digest
from typing import Final

from ottla.common.chance import Chance
from ottla.security.mechanism import LoginRefused
from ottla.security.scram import (
    GS2_HEADER,
    ITERATIONS_MIN,
    TOKEN_AUTH,
    ScramMechanism,
    escaped,
    nonce,
    read_server_final,
    read_server_first,
    xor,
)

_ITERATIONS_MAX: Final = 1 << 20
"""What a server may make us compute: about a second."""


@lru_cache(maxsize=16)
def _salted(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """A node logs in at every other node, with the same password."""
    return mechanism.salted_password(password, salt, iterations)


class ScramClient:
    def __init__(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: str,
        chance: Chance,
        *,
        with_token: bool = False,
    ) -> None:
        """``with_token``: the name is a delegation token's id, the password its HMAC in base64."""
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce(chance)
        extension = f",{TOKEN_AUTH}=true".encode() if with_token else b""
        self._bare = b"n=" + escaped(name) + b",r=" + self._nonce + extension
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return GS2_HEADER + self._bare

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._signature is not None:
            if not compare_digest(read_server_final(challenge), self._signature):
                raise LoginRefused("the server does not know the password")
            return None
        mechanism, first = self._mechanism, read_server_first(challenge)
        if not first.nonce.startswith(self._nonce) or first.nonce == self._nonce:
            raise LoginRefused("the server has answered another login")
        if not ITERATIONS_MIN <= first.iterations <= _ITERATIONS_MAX:
            raise LoginRefused(
                f"the server asks for {first.iterations} iterations; "
                f"{ITERATIONS_MIN} to {_ITERATIONS_MAX} are done"
            )
        salted = _salted(mechanism, self._password, first.salt, first.iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        unproved = b"c=" + base64.b64encode(GS2_HEADER) + b",r=" + first.nonce
        message = b",".join((self._bare, challenge, unproved))
        signature = mechanism.hmac(mechanism.hash(client_key), message)
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), message)
        return unproved + b",p=" + base64.b64encode(xor(client_key, signature))
