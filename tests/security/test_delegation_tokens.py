"""Logins by delegation tokens: whom a token lets in, how long, and when no longer."""

import base64
from typing import NamedTuple

import pytest

from ottla.common.authorization import Principal
from ottla.common.chance import Chance
from ottla.security import delegation_tokens
from ottla.security.delegation_tokens import TokenKey, TokenLogins
from ottla.security.mechanism import Identity, LoginRefused
from ottla.security.scram import MECHANISMS, ScramMechanism
from ottla.security.scram_client import ScramClient
from ottla.security.scram_server import ScramSecrets, ScramServer

NOW_MS = 1_000
KEY = TokenKey("the cluster's own")
SHA_256, SHA_512 = ScramMechanism


class Token(NamedTuple):
    owner: str = "User:alice"
    expiration_timestamp: int = NOW_MS + 500


class Cluster:
    """Its tokens, and logins with them."""

    def __init__(self, key: TokenKey | None = KEY) -> None:
        self.tokens = {"t1": Token(), "t2": Token("User:b:c")}
        self.now_ms = NOW_MS
        self.logins = TokenLogins(key, self.tokens.get, lambda: self.now_ms, Chance(1))

    def log_in(self, token_id: str, password: str, mechanism: ScramMechanism) -> Identity:
        chance = Chance(2)
        secrets = ScramSecrets(
            mechanism,
            lambda _name: None,
            lambda each: self.logins.find(mechanism, each),
            b"decoy",
            chance,
        )
        server = ScramServer(secrets)
        client = ScramClient(mechanism, token_id, password, chance, with_token=True)
        said: bytes | None = client.first()
        while said is not None:
            said = client.evaluate(server.evaluate(said))
        assert server.identity is not None
        return server.identity


def password_of(token_id: str, key: TokenKey = KEY) -> str:
    return base64.b64encode(key.hmac_of(token_id)).decode()


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_a_token_lets_in_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    cluster = Cluster()
    found = cluster.log_in("t1", password_of("t1"), mechanism)
    owner = Principal("User", "alice", token_authenticated=True)
    assert found == Identity(owner, NOW_MS + 500)
    other = cluster.log_in("t2", password_of("t2"), mechanism)
    assert other.principal == Principal("User", "b:c", token_authenticated=True)


def test_another_secret_does_not() -> None:
    cluster = Cluster()
    for wrong in ("", "x", password_of("t2"), password_of("t1", TokenKey("another"))):
        with pytest.raises(LoginRefused):
            cluster.log_in("t1", wrong, SHA_256)


def test_a_token_that_is_gone_or_has_expired_does_not() -> None:
    cluster = Cluster()
    assert cluster.log_in("t1", password_of("t1"), SHA_256)
    del cluster.tokens["t1"]
    with pytest.raises(LoginRefused):
        cluster.log_in("t1", password_of("t1"), SHA_256)
    assert cluster.log_in("t2", password_of("t2"), SHA_256)
    cluster.now_ms += 501
    with pytest.raises(LoginRefused):
        cluster.log_in("t2", password_of("t2"), SHA_256)


def test_a_renewed_token_lets_in_for_longer() -> None:
    cluster = Cluster()
    assert cluster.log_in("t1", password_of("t1"), SHA_256).expires_at_ms == NOW_MS + 500
    cluster.tokens["t1"] = Token(expiration_timestamp=NOW_MS + 900)
    assert cluster.log_in("t1", password_of("t1"), SHA_256).expires_at_ms == NOW_MS + 900


def test_a_node_without_the_secret_lets_nobody_in() -> None:
    with pytest.raises(LoginRefused):
        Cluster(key=None).log_in("t1", password_of("t1"), SHA_512)


def test_only_some_credentials_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "_CACHE_MAX", 2)
    cluster = Cluster()
    cluster.tokens |= {f"n{number}": Token() for number in range(5)}
    for token_id in (*cluster.tokens, "t1"):
        assert cluster.log_in(token_id, password_of(token_id), SHA_256)
        assert len(cluster.logins._kept) <= 2
