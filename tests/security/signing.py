"""An issuer of tokens: keys of all kinds, their JWKS, and tokens that are signed with them."""

import base64
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
KEYS: dict[str, Any] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
STRANGER = rsa.generate_private_key(65537, 2048)
ALGORITHMS = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}
_FORMS: dict[str, Any] = {"rsa": RSAAlgorithm, "ec": ECAlgorithm, "ed": OKPAlgorithm}


def jwk(key_id: str, **more: object) -> dict[str, Any]:
    made: dict[str, Any] = _FORMS[key_id].to_jwk(KEYS[key_id].public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, "kid": key_id, **more}


def jwks(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(entries) or [jwk(each) for each in KEYS]}).encode()


def claims(now: int = NOW, **changed: object) -> dict[str, Any]:
    made = {"sub": "alice", "iat": now - 10, "exp": now + 600, **changed}
    return {name: value for name, value in made.items() if value is not None}


def signed(
    given: dict[str, Any] | None = None,
    key: Any = None,
    *,
    key_id: str | None = "rsa",
    algorithm: str | None = None,
    **headers: object,
) -> str:
    """A token; ``key`` signs it, whatever ``key_id`` says."""
    if key_id is not None:
        headers["kid"] = key_id
    return jwt.encode(
        claims() if given is None else given,
        KEYS[key_id or "rsa"] if key is None else key,
        algorithm=algorithm or ALGORITHMS.get(key_id or "rsa", "RS256"),
        headers=headers,
    )


def written(header: dict[str, Any], given: dict[str, Any], signature: bytes = b"") -> str:
    """A token by hand, as no library would make it."""
    parts = [json.dumps(each).encode() for each in (header, given)] + [signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
