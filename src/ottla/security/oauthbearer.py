"""SASL/OAUTHBEARER (RFC 7628): a bearer token in one message; and tokens without a signature.

The default of Kafka's brokers takes such unsecured tokens, which anybody can write: they are for
development. Signed ones are :mod:`ottla.security.signed_tokens`'.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.security.mechanism import ClientMechanism, Identity, LoginRefused, user

_SEPARATOR: Final = "\x01"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_TOKEN_PARTS: Final = 3
MESSAGE_MAX: Final = 1 << 16
"""Of a message; tokens of many claims have a few kilobytes."""
INVALID_TOKEN: Final = "invalid_token"  # noqa: S105 - a status
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
_PREFIX: Final = "unsecuredLogin"


class TokenRefused(Exception):
    """A token that lets nobody in; the text is for our log."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


CheckToken = Callable[[str], Identity]
"""Whose token it is; TokenRefused when it is nobody's."""


class OauthbearerServer:
    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refusal: str | None = None
        """What the client has been told; it says so once more, and then it is over."""
        self.identity: Identity | None = None

    def evaluate(self, response: bytes) -> bytes:
        if self._refusal is not None:
            raise LoginRefused(self._refusal if response == b"\x01" else "")
        if len(response) > MESSAGE_MAX:
            raise LoginRefused
        try:
            found = _FIRST.fullmatch(response.decode("utf-8"))
        except UnicodeDecodeError:
            raise LoginRefused from None
        if found is None:
            raise LoginRefused
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None or bearer["scheme"].lower() != "bearer":
            raise LoginRefused
        try:
            identity = self._check(bearer["token"])
        except TokenRefused as refused:
            told = {"status": refused.status}
            if refused.scope:
                told["scope"] = refused.scope
            self._refusal = json.dumps(told, separators=(",", ":"))
            return self._refusal.encode()
        self._check_authorization_id(found["authzid"] or "", identity)
        self.identity = identity
        return b""

    def _check_authorization_id(self, given: str, identity: Identity) -> None:
        name = given.replace("=2C", ",").replace("=3D", "=")
        if name and name != identity.principal.name:
            raise LoginRefused(
                f"Authentication failed: Client requested an authorization id ({name}) that is "
                f"different from the token's principal name ({identity.principal.name})"
            )


class OauthbearerClient:
    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def first(self) -> bytes:
        pairs = "".join(f"{key}={value}\x01" for key, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token}\x01{pairs}\x01".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        # A refusal is a challenge with words; an empty answer to it makes the server say why.
        return b"\x01" if challenge else None


# Tokens without a signature


class UnsecuredRules(NamedTuple):
    """Which unsecured tokens are taken: the options of a JAAS entry."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


def unsecured_rules(options: Mapping[str, str], name: str) -> UnsecuredRules:
    prefix = "unsecuredValidator"
    skew = options.get(f"{prefix}AllowableClockSkewMs", "0")
    if not skew.isascii() or not skew.isdecimal():
        raise InvalidConfig(f"{name}: {prefix}AllowableClockSkewMs is no number")
    scope = options.get(f"{prefix}RequiredScope", "")
    return UnsecuredRules(
        options.get(f"{prefix}PrincipalClaimName") or "sub",
        options.get(f"{prefix}ScopeClaimName") or "scope",
        tuple(scope.split()),
        int(skew),
    )


def check_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> Identity:
    """Whose unsecured token it is."""
    parts = token.split(".")
    if len(parts) != _TOKEN_PARTS or parts[2]:
        raise TokenRefused("it is no unsecured token")
    header, claims = json_of(parts[0]), json_of(parts[1])
    if header.get("alg") != "none":
        raise TokenRefused("an unsecured token must have the algorithm none")
    expires = seconds_of(claims, "exp")
    if expires is None:
        raise TokenRefused("it does not say when it expires")
    issued = seconds_of(claims, "iat")
    if issued is not None:
        if expires <= issued:
            raise TokenRefused("it expires before it was issued")
        if issued * 1000 > now_ms + rules.clock_skew_ms:
            raise TokenRefused("it is of the future")
    if expires * 1000 <= now_ms - rules.clock_skew_ms:
        raise TokenRefused("it has expired")
    scope = scope_of(claims.get(rules.scope_claim))
    if not set(rules.required_scope) <= scope:
        raise TokenRefused(
            "its scope is too small", INSUFFICIENT_SCOPE, " ".join(rules.required_scope)
        )
    return Identity(user(name_of(claims, rules.principal_claim)), int(expires * 1000))


def name_of(claims: Mapping[str, object], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused("it names no principal")
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a character: JSON has an escape for it, no request has
        raise TokenRefused("its principal is no text") from None
    return name


def scope_of(value: object) -> set[str]:
    """Words in a text, or a list of words."""
    if value is None:
        return set()
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise TokenRefused("its scope is no list of words")
    return {word.strip() for word in words}


def seconds_of(claims: Mapping[str, object], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << 53:
        raise TokenRefused(f"its {claim} is no time")
    return float(value)


def json_of(part: str) -> dict[str, object]:
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        found = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused("it cannot be read") from None
    if not isinstance(found, dict):
        raise TokenRefused("it cannot be read")
    return found


def unsecured_client(
    options: Mapping[str, str], name: str, wall_ms: Callable[[], int]
) -> Callable[[], ClientMechanism]:
    """Logs in with unsecured tokens that it writes itself, as the JAAS entry says."""
    strings = _claims(options, "StringClaim_")
    principal_claim = options.get(f"{_PREFIX}PrincipalClaimName", "sub")
    numbers = _claims(options, "NumberClaim_")
    if principal_claim not in strings:
        raise InvalidConfig(f"{name} has no {_PREFIX}StringClaim_{principal_claim}")
    seconds = options.get(f"{_PREFIX}LifetimeSeconds", "3600")
    try:
        lifetime = int(seconds)
        more = {claim: float(value) for claim, value in numbers.items()}
    except ValueError:
        raise InvalidConfig(f"{name}: an option that must be a number is none") from None
    lists = {
        claim: value[1:].split(value[0]) if value else []
        for claim, value in _claims(options, "ListClaim_").items()
    }
    prefix = f"{_PREFIX}Extension_"
    extensions = {
        option.removeprefix(prefix): value
        for option, value in options.items()
        if option.startswith(prefix)
    }

    def new() -> ClientMechanism:
        now = wall_ms() / 1000
        claims: dict[str, object] = {"iat": now, "exp": now + lifetime, **more, **lists, **strings}
        return OauthbearerClient(_token(claims), extensions)

    return new


def _claims(options: Mapping[str, str], kind: str) -> dict[str, str]:
    prefix = f"{_PREFIX}{kind}"
    return {
        option.removeprefix(prefix): value
        for option, value in options.items()
        if option.startswith(prefix)
    }


def _token(claims: Mapping[str, object]) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode("ascii")
        for part in ({"alg": "none"}, claims)
    ]
    return ".".join([*parts, ""])
