"""Delegation tokens: the HMAC of a token's id, by the cluster's secret key, proves its owner.

The HMAC is in no record: every node that knows the key computes it.
"""

import base64
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.common.authorization import Principal
from ottla.common.chance import Chance
from ottla.config.broker import BrokerConfig
from ottla.security.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from ottla.security.scram_server import TokenLogin

_HASH: Final = "sha512"
_CACHE_MAX: Final = 10_000
"""Tokens whose credentials are kept; one more, and the oldest is computed anew when it comes."""


class TokenKey:
    """``delegation.token.secret.key``."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret, token_id.encode(), _HASH)


def token_key(config: BrokerConfig) -> TokenKey | None:
    """None where the settings have no key, or an empty one: there are no tokens then."""
    secret = config.delegation_token_secret_key
    return TokenKey(secret.value) if secret is not None and secret.value else None


class Token(Protocol):
    """As the metadata has it."""

    @property
    def owner(self) -> str: ...

    @property
    def expiration_timestamp(self) -> int: ...


class _Kept(NamedTuple):
    owner: Principal
    credential: ScramCredential


class TokenLogins:
    """Logins by token; each one's credentials are computed once."""

    def __init__(
        self,
        key: TokenKey | None,
        token: Callable[[str], Token | None],
        wall_ms: Callable[[], int],
        chance: Chance,
    ) -> None:
        self._key = key
        self._token = token
        self._wall_ms = wall_ms
        self._chance = chance
        self._kept: dict[tuple[ScramMechanism, str], _Kept] = {}

    def find(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        token = self._token(token_id)
        if self._key is None or token is None or token.expiration_timestamp < self._wall_ms():
            self._kept.pop((mechanism, token_id), None)
            return None
        kept = self._kept.get((mechanism, token_id))
        if kept is None:
            kept = self._compute(self._key, mechanism, token_id, token.owner)
            if len(self._kept) >= _CACHE_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[mechanism, token_id] = kept
        return TokenLogin(kept.owner, kept.credential, token.expiration_timestamp)

    def _compute(
        self, key: TokenKey, mechanism: ScramMechanism, token_id: str, owner: str
    ) -> _Kept:
        salt = self._chance.bytes(SALT_BYTES)
        password = base64.b64encode(key.hmac_of(token_id))
        salted = mechanism.salted_password(password, salt, ITERATIONS_MIN)
        kind, _, name = owner.partition(":")
        return _Kept(Principal(kind, name), credential_of(mechanism, salted, salt, ITERATIONS_MIN))
