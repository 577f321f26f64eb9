"""Delegation tokens by their HMAC, which is all that a request to renew or expire one says."""

from collections.abc import Mapping
from hashlib import sha256

from ottla.metadata.delegation_tokens import DelegationToken, DelegationTokensImage
from ottla.security.delegation_tokens import TokenKey


class TokenIndex:
    """It follows the image, also on a standby: no request computes the HMACs of all tokens."""

    def __init__(self, key: TokenKey) -> None:
        self.key = key
        self._digests: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        """By a digest of the HMAC: how long a search takes tells nothing of the HMAC itself."""

    def apply(self, changed: Mapping[str, DelegationToken | None]) -> None:
        for token_id, token in changed.items():
            if token is None:
                self._remove(token_id)
            else:
                self._add(token_id)

    def become(self, tokens: DelegationTokensImage) -> None:
        """Go on to any other image; what both have is not computed again."""
        for token_id in [each for each in self._digests if each not in tokens]:
            self._remove(token_id)
        for token_id in tokens:
            self._add(token_id)

    def _add(self, token_id: str) -> None:
        if token_id not in self._digests:
            digest = sha256(self.key.hmac_of(token_id)).digest()
            self._digests[token_id] = digest
            self._ids[digest] = token_id

    def _remove(self, token_id: str) -> None:
        digest = self._digests.pop(token_id, None)
        if digest is not None:
            del self._ids[digest]

    def find(self, hmac: bytes) -> str | None:
        return self._ids.get(sha256(hmac).digest())
