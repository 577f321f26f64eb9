"""Keys of signed tokens: which settings are taken, and how the keys are kept and renewed."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.integration.test_sasl import secured
from tests.security.signing import KEYS, claims, jwk, jwks, signed

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.metadata.cache import MetadataCache
from ottla.network.web_fetch import FetchFailed
from ottla.security.key_refresh import RefreshSettings
from ottla.security.mechanism import user
from ottla.security.oauthbearer import CheckToken, TokenRefused
from ottla.security.signed_tokens import UnknownKey
from ottla.server.defaults import development_properties
from ottla.server.logins import Logins
from ottla.server.signing_keys import ALLOWED_URLS, SigningKeys
from ottla.simulation.scheduler import SimulatedScheduler

PREFIX = "listener.name.plaintext.oauthbearer."
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
OLD_HANDLER = HANDLER.replace("oauthbearer.OAuth", "oauthbearer.secured.OAuth")
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def settings(url: str | None, **more: str) -> dict[str, str]:
    made = secured(
        **{
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{PREFIX}sasl.jaas.config": MODULE,
            f"{PREFIX}sasl.server.callback.handler.class": HANDLER,
            **more,
        }
    )
    if url is not None:
        made |= {"sasl.oauthbearer.jwks.endpoint.url": url}
        made.setdefault(ALLOWED_URLS, f"https://other.example/,{url}")
    return made


def logins(given: Mapping[str, str], scheduler: SimulatedScheduler | None = None) -> Logins:
    config = BrokerConfig.from_properties({**development_properties("/data"), **given})
    return Logins(config, MetadataCache(), scheduler or SimulatedScheduler(Chance(1)), Chance(2))


def checking(found: Logins) -> CheckToken:
    """How the listener checks tokens."""
    server = found._at["PLAINTEXT"].mechanisms["OAUTHBEARER"]()
    check: CheckToken = server._check  # type: ignore[attr-defined]
    return check


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys of ours.json"
    path.write_bytes(jwks(jwk("rsa")))
    return path


def lively(scheduler: SimulatedScheduler, **changed: object) -> dict[str, object]:
    return claims(scheduler.wall_ms() // 1000, **changed)


@pytest.mark.parametrize("handler", [HANDLER, OLD_HANDLER])
def test_keys_of_a_file(file: Path, handler: str) -> None:
    scheduler = SimulatedScheduler(Chance(1))
    more = {f"{PREFIX}sasl.server.callback.handler.class": handler}
    check = checking(logins(settings(file.as_uri(), **more), scheduler))
    assert check(signed(lively(scheduler))).principal == user("alice")
    with pytest.raises(TokenRefused):
        check(signed(lively(scheduler), KEYS["ec"], key_id="ec"))


def test_settings_of_a_listener_are_kept(file: Path) -> None:
    scheduler = SimulatedScheduler(Chance(1))
    more = {
        "sasl.oauthbearer.expected.audience": "x",
        f"{PREFIX}sasl.oauthbearer.expected.audience": "ottla,kafka",
        f"{PREFIX}sasl.oauthbearer.expected.issuer": "us",
        f"{PREFIX}sasl.oauthbearer.sub.claim.name": "who",
        f"{PREFIX}sasl.oauthbearer.scope.claim.name": "scp",
        f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "0",
    }
    check = checking(logins(settings(file.as_uri(), **more), scheduler))
    good = {"aud": "ottla", "iss": "us", "who": "bob"}
    assert check(signed(lively(scheduler, **good))).principal == user("bob")
    now = scheduler.wall_ms() // 1000
    for wrong in (
        {"aud": "x"}, {"iss": "x"}, {"who": None}, {"scp": ["a", "a"]}, {"exp": now - 1},
    ):  # fmt: skip
        with pytest.raises(TokenRefused):
            check(signed(lively(scheduler, **{**good, **wrong})))


def test_a_file_is_read_again(file: Path) -> None:
    scheduler = SimulatedScheduler(Chance(1))
    more = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "5000"}
    check = checking(logins(settings(file.as_uri(), **more), scheduler))
    scheduler.run_for(1.0)
    file.write_bytes(jwks(jwk("ec")))
    token = signed(lively(scheduler), key_id="rsa")
    assert check(token)
    scheduler.run_for(6.0)
    with pytest.raises(UnknownKey):
        check(token)
    assert check(signed(lively(scheduler), key_id="ec"))


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        (None, {}, "sasl.oauthbearer.jwks.endpoint.url is not set"),
        ("https://a.example/keys", {ALLOWED_URLS: ""}, "https://a.example/keys is not allowed"),
        (
            "https://a.example/keys",
            {ALLOWED_URLS: "https://a.example/,https://a.example/keys2"},
            "is not allowed",
        ),
        ("ftp://a.example/keys", {}, "no URL of http, https or file"),
        ("https:///keys", {}, "no URL of http, https or file"),
        ("file:///no/such/file", {}, "cannot be used: No such file"),
        (
            "https://a.example/keys",
            {"sasl.oauthbearer.jwt.validator.class": "com.example.Mine"},
            "cannot be loaded",
        ),
        (
            "https://a.example/keys",
            {f"{PREFIX}sasl.server.callback.handler.class": "com.example.Mine"},
            "cannot be loaded",
        ),
    ],
)
def test_what_is_refused_at_the_start(url: str | None, more: dict[str, str], words: str) -> None:
    """No token is taken unchecked (CVE-2025-27817, CVE-2026-110985)."""
    with pytest.raises(InvalidConfig, match=words):
        logins(settings(url, **more))


def test_a_file_that_is_no_jwks_is_refused_at_the_start(file: Path) -> None:
    file.write_text("{}")
    with pytest.raises(InvalidConfig, match="no list of keys"):
        logins(settings(file.as_uri()))


def test_without_the_library_the_start_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ottla.server.signing_keys")
    monkeypatch.delitem(sys.modules, "ottla.security.signed_tokens")
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(InvalidConfig, match="PyJWT"):
        logins(settings(file.as_uri()))


# Keys of the web


class Endpoint:
    """Answers what the test says, or fails."""

    def __init__(self) -> None:
        self.answers: bytes | None = jwks(jwk("rsa"))
        self.asked = 0

    def fetch(self) -> bytes:
        self.asked += 1
        if self.answers is None:
            raise FetchFailed("it is away")
        return self.answers


def kept(endpoint: Endpoint) -> tuple[SigningKeys, SimulatedScheduler]:
    scheduler = SimulatedScheduler(Chance(1))
    keys = SigningKeys("https://a", endpoint.fetch, RefreshSettings(60, 0.1, 10), scheduler)
    keys.start()
    return keys, scheduler


def names(keys: SigningKeys) -> list[str | None]:
    return [key.key_id for key in keys.keys]


def test_keys_are_fetched_and_renewed_off_the_loop() -> None:
    endpoint = Endpoint()
    keys, scheduler = kept(endpoint)
    assert names(keys) == []
    scheduler.run_for(1.0)
    assert names(keys) == ["rsa"]
    endpoint.answers = jwks(jwk("ec"))
    scheduler.run_for(50.0)
    assert (names(keys), endpoint.asked) == (["rsa"], 1)
    scheduler.run_for(20.0)
    assert (names(keys), endpoint.asked) == (["ec"], 2)
    keys.stop()
    scheduler.run_for(200.0)
    assert endpoint.asked == 2


@pytest.mark.parametrize("broken", [None, b"", b'{"keys": []}'])
def test_keys_that_cannot_be_had_let_nobody_in_and_are_asked_for_again(
    broken: bytes | None,
) -> None:
    endpoint = Endpoint()
    endpoint.answers = broken
    keys, scheduler = kept(endpoint)
    scheduler.run_for(30.0)
    assert names(keys) == []
    assert 7 <= endpoint.asked <= 10  # 0.1 s, 0.2 s, ... 6.4 s, 10 s
    endpoint.answers = jwks(jwk("rsa"))
    scheduler.run_for(11.0)
    assert names(keys) == ["rsa"]
    endpoint.answers = broken
    scheduler.run_for(100.0)
    assert names(keys) == ["rsa"]  # what was had stays


def test_an_unknown_key_is_a_reason_to_ask_but_seldom() -> None:
    endpoint = Endpoint()
    keys, scheduler = kept(endpoint)
    scheduler.run_for(1.0)
    endpoint.answers = jwks(jwk("rsa"), jwk("ec"))
    keys.unknown("ec")
    scheduler.run_for(1.0)
    assert (names(keys), endpoint.asked) == (["rsa", "ec"], 2)
    for number in range(1000):
        keys.unknown(f"made up {number}")
    scheduler.run_for(1.0)
    assert endpoint.asked == 2
