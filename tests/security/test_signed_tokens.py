"""Signed tokens: who gets in, and who does not (CVE-2026-33557, CVE-2026-110985)."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from tests.security.signing import (
    ALGORITHMS,
    KEYS,
    NOW,
    NOW_MS,
    STRANGER,
    claims,
    jwk,
    jwks,
    signed,
    written,
)

from ottla.security.mechanism import Identity, user
from ottla.security.oauthbearer import TokenRefused
from ottla.security.signed_tokens import (
    KEYS_MAX,
    TOKEN_CHARACTERS_MAX,
    JwksUnusable,
    SignedRules,
    UnknownKey,
    check_signed,
    read_jwks,
)

ALL = read_jwks(jwks())
ALICE = Identity(user("alice"), (NOW + 600) * 1000)


def check(token: str, rules: SignedRules = SignedRules(), keys: Any = ALL) -> Identity:  # noqa: B008
    return check_signed(token, keys, rules, NOW_MS)


def refused(token: str, words: str, rules: SignedRules = SignedRules(), keys: Any = ALL) -> None:  # noqa: B008
    with pytest.raises(TokenRefused, match=words) as refusal:
        check(token, rules, keys)
    assert refusal.value.status == "invalid_token"


@pytest.mark.parametrize("key_id", KEYS)
def test_who_has_signed_lets_in(key_id: str) -> None:
    assert check(signed(key_id=key_id)) == ALICE


@pytest.mark.parametrize("key_id", KEYS)
def test_a_token_without_a_key_id_is_tried_with_all_keys(key_id: str) -> None:
    token = signed(key=KEYS[key_id], key_id=None, algorithm=ALGORITHMS[key_id])
    assert check(token) == ALICE


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_algorithms_of_one_key(algorithm: str) -> None:
    token = signed(algorithm=algorithm)
    assert check(token) == ALICE
    only = read_jwks(jwks(jwk("rsa", alg="RS256")))
    if algorithm == "RS256":
        assert check(token, keys=only) == ALICE
    else:
        refused(token, "no key of ours", keys=only)


# Signatures that prove nothing


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, ["RS256"]])
@pytest.mark.parametrize("key_id", ["rsa", None])
@pytest.mark.parametrize("signature", [b"", b"x" * 256])
def test_no_algorithm_at_all(algorithm: Any, key_id: str | None, signature: bytes) -> None:
    header = {"alg": algorithm} | ({} if key_id is None else {"kid": key_id})
    refused(written(header, claims(), signature), "no key of ours|names no algorithm")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("form", ["pem", "der", "jwk", "modulus"])
def test_a_public_key_is_no_shared_secret(algorithm: str, form: str) -> None:
    public = KEYS["rsa"].public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(jwk("rsa")).encode(),
        "modulus": public.public_numbers().n.to_bytes(256, "big"),
    }[form]
    for header in ({"alg": algorithm, "kid": "rsa"}, {"alg": algorithm}):
        unsigned = written(header, claims()).removesuffix(".")
        digest = hmac.digest(secret, unsigned.encode(), f"sha{algorithm[2:]}")
        refused(written(header, claims(), digest), "no key of ours")


def test_a_shared_secret_in_a_jwks_is_no_key() -> None:
    entry = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0" * 8, "alg": "HS256"}
    keys = read_jwks(jwks(entry, jwk("rsa")))
    assert [key.key_id for key in keys] == ["rsa"]
    header = {"alg": "HS256", "kid": "shared"}
    unsigned = written(header, claims()).removesuffix(".")
    digest = hashlib.sha256(unsigned.encode()).digest()
    refused(written(header, claims(), digest), "not known", keys=keys)


def test_another_key() -> None:
    refused(signed(key=STRANGER), "no key of ours")
    refused(signed(key=STRANGER, key_id=None), "no key of ours")


def test_a_key_id_picks_the_key() -> None:
    token = signed(key=KEYS["ec"], key_id="rsa", algorithm="ES256")
    refused(token, "no key of ours")


def test_an_unknown_key_id_is_told() -> None:
    with pytest.raises(UnknownKey) as refusal:
        check(signed(key=KEYS["rsa"], key_id="new"))
    assert refusal.value.key_id == "new"


def test_without_keys_nobody_gets_in() -> None:
    refused(signed(), "not known", keys=())
    refused(signed(key_id=None), "no key of ours", keys=())


def test_a_token_brings_no_key_of_its_own() -> None:
    """Neither ``jwk`` nor ``jku`` nor ``x5u`` of a header is looked at."""
    own = RSAAlgorithm.to_jwk(STRANGER.public_key(), as_dict=True)
    for more in ({"jwk": own}, {"jku": "https://evil.example"}, {"x5u": "https://evil.example"}):
        refused(signed(key=STRANGER, key_id=None, **more), "no key of ours")


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_a_token_that_was_touched(at: int, bit: int) -> None:
    token = TOKEN
    at %= len(token)
    touched = token[:at] + chr(ord(token[at]) ^ (1 << bit)) + token[at + 1 :]
    try:
        identity = check(touched)
    except TokenRefused:
        return
    # The last character of a part has bits that stand for nothing.
    assert identity == ALICE
    assert touched.split(".")[:2] == token.split(".")[:2]


TOKEN = signed()


@given(st.text("abcXYZ019-_.", max_size=60))
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenRefused):
        check(text)


def test_extensions_are_not_understood() -> None:
    refused(signed(crit=["exp"]), "extension")


def test_a_token_that_is_too_long() -> None:
    refused(signed(claims(more="x" * TOKEN_CHARACTERS_MAX)), "too long")


# Claims


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"exp": None}, "when it expires"),
        ({"exp": NOW - 31}, "has expired"),
        ({"exp": NOW - 30}, "has expired"),
        ({"exp": "tomorrow"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"iat": None}, "when it was issued"),
        ({"iat": "x"}, "iat is no time"),
        ({"nbf": NOW + 31}, "does not hold yet"),
        ({"nbf": "x"}, "nbf is no time"),
        ({"sub": None}, "names no principal"),
        ({"sub": ""}, "names no principal"),
        ({"sub": " "}, "names no principal"),
        ({"sub": 7}, "names no principal"),
        ({"sub": ["alice"]}, "names no principal"),
        ({"scope": ["a", "a"]}, "twice"),
        ({"scope": 7}, "no list of words"),
        ({"aud": "others"}, "for others"),
        ({"aud": ["a", 7]}, "no list of words"),
    ],
)
def test_claims_that_let_nobody_in(changed: dict[str, Any], words: str) -> None:
    if changed.get("sub") in (7, ["alice"]) or "iat" in changed or "aud" in changed:
        # PyJWT does not sign what it knows to be wrong.
        token = _signed_by_hand(claims(**changed))
    else:
        token = signed(claims(**changed))
    refused(token, words)


def _signed_by_hand(given: dict[str, Any]) -> str:
    header = {"alg": "RS256", "kid": "rsa"}
    unsigned = written(header, given).removesuffix(".")
    algorithm = RSAAlgorithm(RSAAlgorithm.SHA256)
    return written(header, given, algorithm.sign(unsigned.encode(), KEYS["rsa"]))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW - 29},
        {"nbf": NOW + 30},
        {"nbf": NOW - 5},
        {"iat": NOW + 1000},  # as in Kafka
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"aud": None},
    ],
)
def test_claims_that_let_in(changed: dict[str, Any]) -> None:
    identity = check(signed(claims(**changed)))
    assert identity.principal == user("alice")
    assert identity.expires_at_ms == changed.get("exp", NOW + 600) * 1000


@pytest.mark.parametrize(
    ("audience", "lets_in"),
    [
        ("ottla", True),
        (["x", "ottla"], True),
        (["x"], False),
        ("x", False),
        (None, False),
        ([], False),
    ],
)
def test_an_audience_is_expected(audience: Any, lets_in: bool) -> None:
    rules = SignedRules(audiences=frozenset({"ottla", "kafka"}))
    token = signed(claims(aud=audience))
    if lets_in:
        assert check(token, rules) == ALICE
    else:
        refused(token, "for others", rules)


@pytest.mark.parametrize(("issuer", "lets_in"), [("us", True), ("them", False), (None, False)])
def test_an_issuer_is_expected(issuer: str | None, lets_in: bool) -> None:
    rules = SignedRules(issuer="us")
    token = signed(claims(iss=issuer))
    if lets_in:
        assert check(token, rules) == ALICE
    else:
        refused(token, "another has issued", rules)


def test_claims_by_other_names() -> None:
    rules = SignedRules(principal_claim="client_id", scope_claim="scp")
    assert check(signed(claims(client_id="bob", scope=7)), rules).principal == user("bob")
    refused(signed(claims(client_id="bob", scp=["a", "a"])), "twice", rules)
    refused(signed(), "names no principal", rules)


# Keys


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"{}", b"[]", b'{"keys": {}}', b'{"keys": []}', b"7", b"\xff", b"[" * 100_000,
        b'{"keys": [7, null, "x", {}, {"kty": "RSA"}, {"kty": "oct", "k": "AA"}]}',
    ],
)  # fmt: skip
def test_what_is_no_jwks(data: bytes) -> None:
    with pytest.raises(JwksUnusable):
        read_jwks(data)


def test_too_many_keys() -> None:
    with pytest.raises(JwksUnusable, match="more than"):
        read_jwks(json.dumps({"keys": [jwk("ec")] * (KEYS_MAX + 1)}).encode())


def test_keys_that_are_left_out() -> None:
    weak = rsa.generate_private_key(65537, 1024).public_key()
    odd = ec.generate_private_key(ec.SECP256K1()).public_key()
    entries = [
        RSAAlgorithm.to_jwk(weak, as_dict=True),
        ECAlgorithm.to_jwk(odd, as_dict=True),
        jwk("rsa", use="enc"),
        jwk("ec", alg="RS256"),
        jwk("ed", kid=7),
        jwk("ed"),
    ]
    assert [key.key_id for key in read_jwks(jwks(*entries))] == ["ed"]


def test_a_private_key_is_no_key_of_a_jwks() -> None:
    private = RSAAlgorithm.to_jwk(KEYS["rsa"], as_dict=True)
    with pytest.raises(JwksUnusable):
        read_jwks(jwks(private))
