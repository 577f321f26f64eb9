"""Delegation tokens by their HMAC, which is all that a request to renew or expire one says."""

from collections.abc import Mapping
from hashlib import sha256

from ottla.metadata.delegation_tokens import DelegationToken
from ottla.security.delegation_tokens import TokenKey


class TokenIndex:
    """Made once, and then changed with the image: no request computes the HMACs of all tokens."""

    def __init__(self, key: TokenKey) -> None:
        self.key = key
        self._ids: dict[bytes, str] = {}
        """By a digest of the HMAC: how long a search takes tells nothing of the HMAC itself."""

    def apply(self, changed: Mapping[str, DelegationToken | None]) -> None:
        for token_id, token in changed.items():
            digest = sha256(self.key.hmac_of(token_id)).digest()
            if token is None:
                self._ids.pop(digest, None)
            else:
                self._ids[digest] = token_id

    def find(self, hmac: bytes) -> str | None:
        return self._ids.get(sha256(hmac).digest())
