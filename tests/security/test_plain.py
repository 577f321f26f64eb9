"""SASL/PLAIN: one message, and what is wrong with others."""

import pytest
from tests.security.logins import PASSWORDS, plain

from ottla.security.mechanism import LoginRefused, user
from ottla.security.plain import PlainClient, PlainServer, plain_users


def refused(token: bytes) -> str:
    server = PlainServer(PASSWORDS)
    with pytest.raises(LoginRefused) as error:
        server.evaluate(token)
    assert server.identity is None
    return str(error.value)


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_right_password(authorization_id: str) -> None:
    server = PlainServer(PASSWORDS)
    assert server.evaluate(plain("alice", "alice-secret", authorization_id)) == b""
    assert server.identity is not None
    assert server.identity.principal == user("alice")
    assert server.identity.expires_at_ms is None


def test_the_client_says_what_the_server_takes() -> None:
    server = PlainServer({"älïce": "ß:=".encode()})
    server.evaluate(PlainClient("älïce", "ß:=").first())
    assert server.identity is not None


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\0" * 9, "expected 3 tokens, got 4"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0alice-secret", "Invalid username or password"),
        (b"\0nobody\0\xff\xfe", "Invalid username or password"),
        (b"\0alice\0alice-secret ", "Invalid username or password"),
        (b"admin\0alice\0alice-secret", "authorization id that is different from username"),
    ],
)
def test_what_is_refused_and_in_which_words(token: bytes, words: str) -> None:
    assert words in refused(token)


def test_an_unknown_user_hears_what_a_wrong_password_hears() -> None:
    assert refused(plain("nobody", "x")) == refused(plain("alice", "x"))


def test_users_are_options_of_the_entry() -> None:
    options = {"username": "admin", "password": "p", "user_admin": "p", "user_a_b": "q"}
    assert plain_users(options) == {"admin": b"p", "a_b": b"q"}
