"""The keys that tokens are signed with, of ``sasl.oauthbearer.jwks.endpoint.url``: kept, renewed.

They are fetched off the loop. While none could be had, nobody gets in; keys that were had stay when
they cannot be renewed, as in Kafka.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import InvalidConfig
from ottla.common.promise import Promise
from ottla.network.web_fetch import BYTES_MAX, FetchFailed, fetch
from ottla.observability.logging import logger
from ottla.security.key_refresh import KeyRefresh, RefreshSettings
from ottla.security.listener_settings import SaslOfListener
from ottla.security.mechanism import OAUTHBEARER, Identity
from ottla.security.oauthbearer import CheckToken
from ottla.security.signed_tokens import (
    JwksUnusable,
    SignedRules,
    SigningKey,
    UnknownKey,
    check_signed,
    read_jwks,
)

log = logger(__name__)

ALLOWED_URLS: Final = "ottla.sasl.oauthbearer.allowed.urls"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_LANE: Final = "signing-keys"
_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
_VALIDATORS: Final = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{name}"
    for name in ("DefaultJwtValidator", "BrokerJwtValidator")
)

Fetch = Callable[[], bytes]


class SigningKeys:
    """Of one URL."""

    def __init__(
        self, url: str, fetch_now: Fetch, settings: RefreshSettings, scheduler: Scheduler
    ) -> None:
        self._url = url
        self._fetch = fetch_now
        self._scheduler = scheduler
        self._refresh = KeyRefresh(settings)
        self._timer: Cancellable | None = None
        self.keys: tuple[SigningKey, ...] = ()

    def start(self) -> None:
        self._timer = self._scheduler.call_soon(self._ask)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def unknown(self, key_id: str) -> None:
        """A token names a key that is not there."""
        if self._refresh.is_wanted_early(key_id, self._scheduler.monotonic()):
            self._ask()

    def _ask(self) -> None:
        if self._refresh.begin():
            read = self._scheduler.run_in_background(lambda: read_jwks(self._fetch()), _LANE)
            read.when_done(self._answered)

    def _answered(self, read: Promise[tuple[SigningKey, ...]]) -> None:
        try:
            self.keys = read.result()
        except (FetchFailed, JwksUnusable) as error:
            pause = self._refresh.failed()
            log.warning("keys of signed tokens not renewed", url=self._url, reason=str(error))
        else:
            pause = self._refresh.succeeded()
            log.debug("keys of signed tokens renewed", url=self._url, keys=len(self.keys))
        self.stop()
        self._timer = self._scheduler.call_later(pause, self._ask)


def signed_tokens_of(
    settings: SaslOfListener, allowed: tuple[str, ...], scheduler: Scheduler
) -> tuple[CheckToken, SigningKeys]:
    """How a listener checks signed tokens, and where their keys come from."""
    url = settings.text(_URL, OAUTHBEARER)
    if url is None:
        raise InvalidConfig(f"{_URL} is not set: signed tokens could not be checked")
    check_validator(settings)
    keys = SigningKeys(url, fetching(url, allowed, scheduler), _refresh(settings), scheduler)
    if urlsplit(url).scheme == "file":
        keys.keys = _read_at_once(url, allowed, scheduler)
    rules = SignedRules(
        frozenset(settings.words("sasl.oauthbearer.expected.audience", OAUTHBEARER)),
        settings.text("sasl.oauthbearer.expected.issuer", OAUTHBEARER),
        settings.text("sasl.oauthbearer.sub.claim.name", OAUTHBEARER) or "sub",
        settings.text("sasl.oauthbearer.scope.claim.name", OAUTHBEARER) or "scope",
        settings.number("sasl.oauthbearer.clock.skew.seconds", OAUTHBEARER),
    )

    def check(token: str) -> Identity:
        try:
            return check_signed(token, keys.keys, rules, scheduler.wall_ms())
        except UnknownKey as refused:
            keys.unknown(refused.key_id)
            raise

    keys.start()
    return check, keys


def check_validator(settings: SaslOfListener) -> None:
    validator = settings.text(_VALIDATOR, OAUTHBEARER)
    if validator not in _VALIDATORS:
        raise InvalidConfig(
            f"{_VALIDATOR} names a Java class that cannot be loaded; {max(_VALIDATORS)} is known"
        )


def _refresh(settings: SaslOfListener) -> RefreshSettings:
    def seconds(name: str) -> float:
        return max(1, settings.number(name, OAUTHBEARER)) / 1000

    return RefreshSettings(
        seconds("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )


def fetching(url: str, allowed: tuple[str, ...], scheduler: Scheduler) -> Fetch:
    """How a URL's document is got; InvalidConfig for one that nobody has allowed."""
    if url not in allowed:
        raise InvalidConfig(
            f"{url} is not allowed: add it to {ALLOWED_URLS} (in Apache Kafka a property of the "
            "Java process, org.apache.kafka.sasl.oauthbearer.allowed.urls)"
        )
    parts = urlsplit(url)
    if parts.scheme == "file":
        return lambda: _read_file(Path(unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidConfig(f"{url} is no URL of http, https or file")
    return lambda: fetch(url, scheduler)


def _read_at_once(
    url: str, allowed: tuple[str, ...], scheduler: Scheduler
) -> tuple[SigningKey, ...]:
    """A file that cannot be used is seen when the node starts."""
    try:
        return read_jwks(fetching(url, allowed, scheduler)())
    except (FetchFailed, JwksUnusable) as error:
        raise InvalidConfig(f"{_URL}: {url} cannot be used: {error}") from error


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise FetchFailed(error.strerror or "it cannot be read") from error
    if len(data) > BYTES_MAX:
        raise FetchFailed(f"it has more than {BYTES_MAX} bytes")
    return data
