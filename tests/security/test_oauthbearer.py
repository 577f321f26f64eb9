"""OAUTHBEARER with tokens that nobody signed: what is taken of them, and what never is."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.mechanism import LoginRefused, user
from ottla.security.oauthbearer import (
    MESSAGE_MAX,
    OauthbearerServer,
    TokenRefused,
    UnsecuredRules,
    check_unsecured,
)

NOW_MS = 1_700_000_000_000
NOW = NOW_MS / 1000
RULES = UnsecuredRules(required_scope=("kafka",), clock_skew_ms=1_000)
GOOD = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 60, "scope": "other kafka"}


def token(claims: Any, header: Any = None, signature: str = "") -> str:
    parts = ({"alg": "none"} if header is None else header, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return ".".join([*(part.decode() for part in encoded), signature])


def server() -> OauthbearerServer:
    return OauthbearerServer(lambda text: check_unsecured(text, RULES, NOW_MS))


def message(text: str, authorization_id: str = "") -> bytes:
    named = f"a={authorization_id}" if authorization_id else ""
    return f"n,{named},\x01auth=Bearer {text}\x01\x01".encode()


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_good_token(authorization_id: str) -> None:
    login = server()
    assert login.evaluate(message(token(GOOD), authorization_id)) == b""
    assert login.identity is not None
    assert login.identity.principal == user("alice")
    assert login.identity.expires_at_ms == NOW_MS + 60_000


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None},
        {"exp": NOW - 1},
        {"exp": "1e10"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": float("nan")},
        {"exp": NOW - 20, "iat": NOW - 10},
        {"iat": NOW + 2},
        {"sub": None},
        {"sub": ""},
        {"sub": " "},
        {"sub": 7},
        {"scope": None},
        {"scope": "kafkaesque"},
        {"scope": [1]},
    ],
)
def test_claims_that_let_nobody_in(changed: dict[str, object]) -> None:
    claims = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    with pytest.raises(TokenRefused):
        check_unsecured(token(claims), RULES, NOW_MS)


@pytest.mark.parametrize("header", [{}, {"alg": "None"}, {"alg": "HS256"}, {"alg": ["none"]}, []])
def test_no_other_algorithm_is_none(header: object) -> None:
    with pytest.raises(TokenRefused):
        check_unsecured(token(GOOD, header), RULES, NOW_MS)


def test_what_is_signed_is_not_taken_for_unsecured() -> None:
    with pytest.raises(TokenRefused):
        check_unsecured(token(GOOD, signature="c2ln"), RULES, NOW_MS)


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_a_name_that_cannot_be_written_down_is_nobodys(name: str) -> None:
    """JSON has escapes for halves of characters; no request and no log can carry them."""
    logging_in = server()
    refused = logging_in.evaluate(message(token({**GOOD, "sub": name})))
    assert json.loads(refused) == {"status": "invalid_token"}
    assert logging_in.identity is None


def test_a_refusal_is_told_as_a_challenge_and_then_it_is_over() -> None:
    login = server()
    told = login.evaluate(message(token({**GOOD, "scope": "none"})))
    assert json.loads(told) == {"status": "insufficient_scope", "scope": "kafka"}
    with pytest.raises(LoginRefused, match="insufficient_scope"):
        login.evaluate(b"\x01")
    assert login.identity is None


def test_a_good_token_after_a_bad_one_does_not_help() -> None:
    login = server()
    login.evaluate(message(token({**GOOD, "exp": 1})))
    with pytest.raises(LoginRefused):
        login.evaluate(message(token(GOOD)))
    assert login.identity is None


def test_nobody_logs_in_for_another() -> None:
    login = server()
    with pytest.raises(LoginRefused):
        login.evaluate(message(token(GOOD), "admin"))
    assert login.identity is None


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_no_message_is_longer_than_tokens_are(more: int, is_taken: bool) -> None:
    head, tail = message(token(GOOD))[:-1] + b"x=", b"\x01\x01"
    text = head + b"y" * (MESSAGE_MAX - len(head) - len(tail) + more) + tail
    login = server()
    if is_taken:
        assert login.evaluate(text) == b""
    else:
        with pytest.raises(LoginRefused):
            login.evaluate(text)


@given(st.lists(st.binary(max_size=80) | st.just(b"n,,\x01auth=Bearer a.b.\x01\x01"), max_size=3))
def test_no_bytes_are_a_surprise(messages: list[bytes]) -> None:
    login = server()
    for each in messages:
        try:
            login.evaluate(each)
        except LoginRefused:
            break
    assert login.identity is None
