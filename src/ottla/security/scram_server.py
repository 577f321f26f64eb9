"""A SCRAM login as the server sees it.

An unknown user gets a salt all the same, always the same one, and fails where a wrong password
fails: at the proof.
"""

import base64
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from ottla.common.authorization import Principal
from ottla.common.chance import Chance
from ottla.security.mechanism import Identity, LoginRefused, user
from ottla.security.scram import (
    GS2_HEADER,
    ITERATIONS_MIN,
    SALT_BYTES,
    TOKEN_AUTH,
    ClientFirst,
    ScramCredential,
    ScramMechanism,
    nonce,
    read_client_final,
    read_client_first,
    xor,
)


class TokenLogin(NamedTuple):
    """What a delegation token lets in."""

    owner: Principal
    credential: ScramCredential
    expires_at_ms: int


class ScramSecrets(NamedTuple):
    """What a server's logins of one mechanism are checked against."""

    mechanism: ScramMechanism
    credential: Callable[[str], ScramCredential | None]
    """Of a user."""
    token: Callable[[str], TokenLogin | None]
    """By its id; None when it is unknown or has expired."""
    decoy_key: bytes
    """Makes salts for users that are not known."""
    chance: Chance

    def __repr__(self) -> str:
        return f"ScramSecrets({self.mechanism.mechanism_name}, [hidden])"


class ScramServer:
    def __init__(self, secrets: ScramSecrets) -> None:
        self._secrets = secrets
        self._mechanism = secrets.mechanism
        self._first: ClientFirst | None = None
        self._server_first = b""
        self._nonce = b""
        self._credential: ScramCredential | None = None
        self._expected: Identity | None = None
        """Who it is, if the proof is right; None for nobody."""
        self.identity: Identity | None = None

    def evaluate(self, response: bytes) -> bytes:
        if self._first is None:
            return self._begin(read_client_first(response))
        return self._prove(self._first, response)

    def _begin(self, first: ClientFirst) -> bytes:
        if first.authorization_id and first.authorization_id != first.name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._first = first
        credential = self._look_up(first)
        if credential is None:
            credential = self._decoy(first.name)
        elif credential.iterations < ITERATIONS_MIN:
            raise LoginRefused
        self._credential = credential
        self._nonce = first.nonce + nonce(self._secrets.chance)
        salt = base64.b64encode(credential.salt)
        self._server_first = b"r=%b,s=%b,i=%d" % (self._nonce, salt, credential.iterations)
        return self._server_first

    def _look_up(self, first: ClientFirst) -> ScramCredential | None:
        secrets = self._secrets
        if first.extensions.get(TOKEN_AUTH, "").lower() == "true":
            token = secrets.token(first.name)
            if token is None:
                return None
            owner = token.owner._replace(token_authenticated=True)
            self._expected = Identity(owner, token.expires_at_ms)
            return token.credential
        credential = secrets.credential(first.name)
        if credential is not None:
            self._expected = Identity(user(first.name))
        return credential

    def _decoy(self, name: str) -> ScramCredential:
        made = self._mechanism.hmac(self._secrets.decoy_key, name.encode())
        return ScramCredential(made[:SALT_BYTES], made, made, ITERATIONS_MIN)

    def _prove(self, first: ClientFirst, response: bytes) -> bytes:
        credential, mechanism = self._credential, self._mechanism
        if credential is None:
            raise LoginRefused  # it was over already
        self._credential = None
        final = read_client_final(response)
        if not compare_digest(final.nonce, self._nonce):
            raise LoginRefused
        # Clients that name an authorization id are known to bind to a header without it.
        if final.channel not in {GS2_HEADER, first.header}:
            raise LoginRefused
        if len(final.proof) != len(credential.stored_key):
            raise LoginRefused
        message = b",".join((first.bare, self._server_first, final.unproved))
        signature = mechanism.hmac(credential.stored_key, message)
        client_key = xor(final.proof, signature)
        is_right = compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not is_right or self._expected is None:
            raise LoginRefused
        self.identity = self._expected
        return b"v=" + base64.b64encode(mechanism.hmac(credential.server_key, message))
