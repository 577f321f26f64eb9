"""Client quotas: what each client has taken lately, and how long it must wait for more.

What is counted is kept in buckets, which a client may share with others (`metadata/quota_limits`).
A change of a quota holds for the next request; what was counted before stays counted.

Rules:
1. What is over its limit is counted all the same, except bytes that are not sent for it.
2. Throttle times of one request do not add up: the longest counts.
3. Memory is bounded: a bucket that is unused for an hour goes, and the least used of too many.

Counterparts in Apache Kafka: ``ClientQuotaManager``, ``ClientRequestQuotaManager``,
``ControllerMutationQuotaManager``.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.common.authorization import Client
from ottla.common.errors import ThrottlingQuotaExceeded
from ottla.common.rates import Buckets, SampledRate, TokenBucket
from ottla.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.quota_limits import Limit, QuotaLimits

_PERCENT: Final = 100


class QuotaWindows:
    """How rates are measured: ``quota.window.*`` and ``controller.quota.window.*``."""

    __slots__ = ("count", "ms", "mutation_seconds")

    def __init__(self, count: int = 11, seconds: int = 1, mutation_seconds: int = 11) -> None:
        self.count = count
        self.ms = seconds * 1000
        self.mutation_seconds = mutation_seconds
        """Of changes of metadata, so many seconds' worth may be made at once."""


class RateQuota:
    """One key whose rate is measured in windows."""

    def __init__(self, key: str, windows: QuotaWindows) -> None:
        self.limits = QuotaLimits(key)
        self._windows = windows
        self.buckets: Buckets[QuotaEntity, SampledRate] = Buckets(
            lambda: SampledRate(windows.count, windows.ms)
        )

    def record(self, client: "MeteredClient", value: float, now_ms: int) -> int:
        """Count ``value``; for how many ms the client must wait."""
        limit = self._limit(client)
        if limit is None:
            return 0
        rate = self.buckets.of(limit.bucket, now_ms)
        rate.record(value, now_ms)
        return rate.throttle_ms(limit.bound, now_ms)

    def take_back(self, client: "MeteredClient", value: float, now_ms: int) -> None:
        limit = self._limit(client)
        if limit is not None:
            self.buckets.of(limit.bucket, now_ms).record(-value, now_ms)

    def is_first(self, client: "MeteredClient", value: float, now_ms: int) -> bool:
        """Whether nothing but ``value``, which was counted now, is in the client's windows."""
        limit = self._limit(client)
        return limit is None or self.buckets.of(limit.bucket, now_ms).total(now_ms) <= value

    def most_at_once(self, client: "MeteredClient") -> float | None:
        """What fits into the windows; None where nothing is limited."""
        limit = self._limit(client)
        if limit is None:
            return None
        return limit.bound * (self._windows.count - 1) * self._windows.ms / 1000

    def _limit(self, client: "MeteredClient") -> Limit | None:
        return self.limits.of_client(client.user, client.client_id) if self.limits else None


class MeteredClient(Protocol):
    """Whose request counts, by what quotas are set for."""

    @property
    def user(self) -> str: ...

    @property
    def client_id(self) -> str: ...


class ClientQuotas:
    """All that hold at one half of a node. ``now`` is the monotonic clock."""

    def __init__(self, now: Callable[[], float], windows: QuotaWindows | None = None) -> None:
        windows = windows or QuotaWindows()
        self._now = now
        self.enforces = False
        """Whether any client is limited at all; else nothing here is asked."""
        self.produce = RateQuota(PRODUCER_BYTE_RATE, windows)
        self.fetch = RateQuota(CONSUMER_BYTE_RATE, windows)
        self.request = RateQuota(REQUEST_PERCENTAGE, windows)
        self._request_max_ms = windows.ms
        self.mutations = QuotaLimits(CONTROLLER_MUTATION_RATE)
        self.token_buckets: Buckets[QuotaEntity, TokenBucket] = Buckets(
            lambda: TokenBucket(windows.mutation_seconds)
        )

    def changed(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata log."""
        if not delta.client_quotas:
            return
        limits = self.produce.limits, self.fetch.limits, self.request.limits, self.mutations
        for each in limits:
            each.changed(delta)
        self.enforces = any(limits)

    def seconds(self) -> float:
        return self._now()

    def ms(self) -> int:
        return int(self._now() * 1000)

    def spent(self, client: MeteredClient, seconds: float) -> int:
        """Count the time that a request took; for how long the client must wait."""
        percent = seconds * _PERCENT
        return min(self.request.record(client, percent, self.ms()), self._request_max_ms)

    def charge(self, client: Client, *, strict: bool) -> "Charge":
        """What a client pays for changes of metadata; one that is ``strict`` refuses them."""
        return Charge(self, client, strict=strict)

    def tokens(self, entity: QuotaEntity) -> TokenBucket:
        return self.token_buckets.of(entity, self.ms())


class Charge:
    """What one request takes of its client's tokens (KIP-599)."""

    def __init__(self, quotas: ClientQuotas, client: Client, *, strict: bool) -> None:
        self._quotas = quotas
        self._user, self._client_id = client.principal.name, client.client_id or ""
        self._strict = strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def __call__(self, partitions: int) -> None:
        """So many are made or go. ThrottlingQuotaExceeded when there are no tokens for them."""
        quotas = self._quotas
        limit = quotas.mutations.of_client(self._user, self._client_id)
        if limit is None:
            return
        now_ms = quotas.ms()
        tokens = quotas.tokens(limit.bucket)
        if self._strict:
            self._note(tokens.throttle_ms(limit.bound, now_ms), now_ms)
            if tokens.tokens(limit.bound, now_ms) < 0:
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
            tokens.take(partitions, limit.bound, now_ms)
        else:
            tokens.take(partitions, limit.bound, now_ms)
            self._note(tokens.throttle_ms(limit.bound, now_ms), now_ms)

    def _note(self, throttle_ms: int, now_ms: int) -> None:
        if throttle_ms > 0:
            self._throttle_ms, self._recorded_ms = throttle_ms, now_ms

    @property
    def throttle_ms(self) -> int:
        """How much longer the client must wait."""
        return max(0, self._throttle_ms - (self._quotas.ms() - self._recorded_ms))
