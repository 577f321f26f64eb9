"""Signed tokens of OAUTHBEARER: whose they are, by the keys of who issues them (a JWKS, RFC 7517).

Which algorithm checks a signature is the key's to say, never the token's alone: a public key is no
shared secret, and no algorithm at all is none of ours. Needs the ``PyJWT`` package
(``pip install 'ottla[security]'``).
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from ottla.security.mechanism import Identity, user
from ottla.security.oauthbearer import TokenRefused, json_of, name_of, scope_of, seconds_of

KEYS_MAX: Final = 100
"""Of one JWKS: a token without a key id is tried with all."""
TOKEN_CHARACTERS_MAX: Final = 64 * 1024
_RSA_BITS_MIN: Final = 2048
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

_PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class JwksUnusable(Exception):
    """Bytes that are no JWKS, or one without a key for signatures."""


class SigningKey(NamedTuple):
    key_id: str | None
    public: _PublicKey
    algorithms: frozenset[str]


class SignedRules(NamedTuple):
    """Which signed tokens are taken."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_seconds: int = 30


class UnknownKey(TokenRefused):
    """The token names a key that is not there; it may be a new one."""

    def __init__(self, key_id: str) -> None:
        super().__init__("its key is not known")
        self.key_id = key_id


def read_jwks(data: bytes) -> tuple[SigningKey, ...]:
    """The keys of a JWKS that check signatures; what else is in it is left out."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise JwksUnusable("it is no JSON") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise JwksUnusable("it has no list of keys")
    if len(entries) > KEYS_MAX:
        raise JwksUnusable(f"it has more than {KEYS_MAX} keys")
    keys = [key for entry in entries if (key := _read_key(entry)) is not None]
    if not keys:
        raise JwksUnusable("it has no key that checks signatures")
    return tuple(keys)


def _read_key(entry: object) -> SigningKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    if entry.get("kty") not in ("RSA", "EC", "OKP"):
        return None  # a secret that is shared lets everybody sign who can check
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    public = {name: value for name, value in entry.items() if name != "alg"}
    try:
        key = PyJWK(public, algorithm=_first_algorithm(entry)).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey):
        return None
    possible = _algorithms(key)
    if algorithm is not None:
        possible &= {algorithm}
    return SigningKey(key_id, key, possible) if possible else None


def _first_algorithm(entry: Mapping[str, object]) -> str | None:
    """PyJWT wants to be told one of the key's kind, whichever the tokens have."""
    return "RS256" if entry.get("kty") == "RSA" else None


def _algorithms(key: _PublicKey) -> frozenset[str]:
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size >= _RSA_BITS_MIN else frozenset()
    if isinstance(key, Ed25519PublicKey):
        return frozenset({"EdDSA"})
    algorithm = _CURVES.get(key.curve.name)
    return frozenset() if algorithm is None else frozenset({algorithm})


def check_signed(
    token: str, keys: tuple[SigningKey, ...], rules: SignedRules, now_ms: int
) -> Identity:
    """Whose signed token it is; TokenRefused when it is nobody's."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise TokenRefused("it is too long")
    claims = _verified(token, keys)
    now = now_ms / 1000
    expires = seconds_of(claims, "exp")
    if expires is None:
        raise TokenRefused("it does not say when it expires")
    if seconds_of(claims, "iat") is None:
        raise TokenRefused("it does not say when it was issued")
    if expires <= now - rules.clock_skew_seconds:
        raise TokenRefused("it has expired")
    begins = seconds_of(claims, "nbf")
    if begins is not None and begins > now + rules.clock_skew_seconds:
        raise TokenRefused("it does not hold yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("another has issued it")
    _check_audience(claims.get("aud"), rules.audiences)
    scope = claims.get(rules.scope_claim)
    if isinstance(scope, list) and len(scope_of(scope)) < len(scope):
        raise TokenRefused("its scope has a word twice")
    scope_of(scope)
    return Identity(user(name_of(claims, rules.principal_claim)), int(expires * 1000))


def _check_audience(given: object, expected: frozenset[str]) -> None:
    named = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(each, str) for each in named):
        raise TokenRefused("its audience is no list of words")
    if (expected or named) and expected.isdisjoint(named):
        raise TokenRefused("it is for others")


def _verified(token: str, keys: tuple[SigningKey, ...]) -> dict[str, object]:
    """What the token claims, if one of the keys has signed it."""
    header = json_of(token.partition(".")[0])
    if "crit" in header:
        raise TokenRefused("it asks for an extension")
    key_id, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str):
        raise TokenRefused("it names no algorithm")
    if key_id is not None:
        keys = tuple(key for key in keys if key.key_id == key_id)
        if not keys and isinstance(key_id, str):
            raise UnknownKey(key_id)
    for key in keys:
        if algorithm in key.algorithms and _has_signed(key, token, algorithm):
            return json_of(token.split(".")[1])
    raise TokenRefused("no key of ours has signed it")


def _has_signed(key: SigningKey, token: str, algorithm: str) -> bool:
    public: Any = key.public
    try:
        PyJWS().decode(token, public, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        return False
    return True
