"""How many connections come in a second: to all listeners, to one, and from one address (KIP-612).

A listener that is too fast takes nobody for a while: who comes waits in its backlog. An address
that is too fast gets in, is not listened to, and is let go when its time is over; that counts for
nobody else. No time is longer than one window.
"""

from typing import Final

from ottla.common.rates import Buckets, SampledRate
from ottla.metadata.client_quotas import CONNECTION_CREATION_RATE, QuotaEntity
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.quota_limits import QuotaLimits

UNLIMITED: Final = (1 << 31) - 1


class ConnectionRates:
    def __init__(self, window_count: int = 11, window_seconds: int = 1) -> None:
        self._window_count = window_count
        self._window_ms = window_seconds * 1000
        self.bound = UNLIMITED
        """For all listeners together (``max.connection.creation.rate``)."""
        self.bound_at: dict[str, int] = {}
        """For some of them, by their names."""
        self._all = self._rate()
        self._at: dict[str, SampledRate] = {}
        self._limits = QuotaLimits(CONNECTION_CREATION_RATE)
        self._from: Buckets[QuotaEntity, SampledRate] = Buckets(self._rate)

    def _rate(self) -> SampledRate:
        return SampledRate(self._window_count, self._window_ms)

    def changed(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the metadata log, which has the limits of addresses."""
        self._limits.changed(delta)

    def accepted(self, listener_name: str, now_ms: int, *, is_protected: bool) -> int:
        """One has come; for how many ms the listener is to take no other.

        What is for other nodes is not held back by the rate of all.
        """
        wait_ms = 0 if is_protected else self._counted(self._all, self.bound, now_ms)
        bound = self.bound_at.get(listener_name, UNLIMITED)
        if bound == UNLIMITED:
            return wait_ms
        rate = self._at.setdefault(listener_name, self._rate())
        return max(wait_ms, self._counted(rate, bound, now_ms))

    def from_address(self, host: str, now_ms: int) -> int:
        """One wants in from there; for how many ms it is to be held, if it may not."""
        limit = self._limits.of_ip(host) if self._limits else None
        if limit is None:
            return 0
        rate = self._from.of(limit.bucket, now_ms)
        wait_ms = self._counted(rate, limit.bound, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _counted(self, rate: SampledRate, bound: float, now_ms: int) -> int:
        if bound >= UNLIMITED:
            return 0
        rate.record(1, now_ms)
        wait_ms = rate.throttle_ms(bound, now_ms) if bound > 0 else self._window_ms
        return min(wait_ms, self._window_ms)
