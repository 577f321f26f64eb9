"""How fast something happens, and how long who is too fast must wait. Time is an argument, in ms.

Counterparts in Apache Kafka: ``Rate`` over ``SampledStat``, and ``TokenBucket``; the figures are
the same to the millisecond, because clients are told them.
"""

import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
B = TypeVar("B")

UNUSED_MS: Final = 3_600_000
BUCKETS_MAX: Final = 20_000
"""Clients make up names, and so make up buckets."""
WAIT_MS_MAX: Final = (1 << 31) - 1
"""The longest time that an answer can tell; a tiny bound asks for more."""


class _Sample:
    """What came in one window; of its time, when it began and when something came last."""

    __slots__ = ("began", "last", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.began = self.last = now_ms
        self.total = 0.0


class SampledRate:
    """What came within the last windows, by the time that they cover.

    A window begins with what comes in it. Windows that nothing came in count as time all the same:
    all but one are taken to be over, so that a beginning is no rate of its own.
    """

    __slots__ = ("_current", "_samples", "_window_count", "_window_ms")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._window_count = window_count
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count ``value``; what is below 0 takes back what was counted."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.began >= self._window_ms:
            # One more than are counted: the oldest may lie in part before them.
            self._current = (self._current + 1) % (self._window_count + 1)
            if self._current >= len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.reset(now_ms)
        sample.total += value
        sample.last = now_ms

    def _purge(self, now_ms: int) -> None:
        age = self._window_count * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last >= age:
                sample.reset(now_ms)

    def total(self, now_ms: int) -> float:
        """What came within the windows."""
        self._purge(now_ms)
        return sum(sample.total for sample in self._samples)

    def span_ms(self, now_ms: int) -> int:
        """The time that they cover."""
        self._purge(now_ms)
        elapsed = now_ms - min((sample.began for sample in self._samples), default=now_ms)
        missing = self._window_count - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)

    def rate(self, now_ms: int) -> float:
        """What comes in a second."""
        return self.total(now_ms) / (self.span_ms(now_ms) / 1000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """After how long the rate would be ``bound``; 0 when it is not more."""
        over = self.rate(now_ms) - bound
        return _wait_ms(over / bound * self.span_ms(now_ms)) if over > 0 else 0


class TokenBucket:
    """So many tokens a second, up to as many as fit; what is done takes some (KIP-599).

    It may be overdrawn, by the last that found any.
    """

    __slots__ = ("_seconds", "_tokens", "_updated_ms")

    def __init__(self, seconds: float) -> None:
        """``seconds`` of its rate fit into it."""
        self._seconds = seconds
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """Those that are there; the bucket is full at first."""
        refilled = self._tokens + rate * (now_ms - self._updated_ms) / 1000
        self._tokens = min(rate * self._seconds, refilled)
        self._updated_ms = now_ms
        return self._tokens

    @property
    def left(self) -> float:
        """As of when it was last asked."""
        return self._tokens

    def take(self, number: float, rate: float, now_ms: int) -> None:
        self._tokens = min(rate * self._seconds, self.tokens(rate, now_ms) - number)

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """After how long it is overdrawn no more; 0 when it is not."""
        tokens = self.tokens(rate, now_ms)
        return _wait_ms(-tokens / rate * 1000) if tokens < 0 else 0


class Buckets(Generic[K, B]):
    """What is counted for each of many: the one that was used last is at the end.

    One that is unused for an hour goes, and of too many the least used.
    """

    __slots__ = ("_buckets", "_make", "on_gone", "on_made")

    def __init__(self, make: Callable[[], B]) -> None:
        self._make = make
        self._buckets: dict[K, tuple[B, int]] = {}
        self.on_made: Callable[[K, B], None] = lambda _key, _bucket: None
        self.on_gone: Callable[[K], None] = lambda _key: None

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: K, now_ms: int) -> B:
        found = self._buckets.pop(key, None)
        if found is None:
            bucket = self._make()
            self.on_made(key, bucket)
        else:
            bucket = found[0]
        self._buckets[key] = bucket, now_ms
        while True:
            oldest, (_, used_ms) = next(iter(self._buckets.items()))
            if now_ms - used_ms < UNUSED_MS and len(self._buckets) <= BUCKETS_MAX:
                return bucket
            del self._buckets[oldest]
            self.on_gone(oldest)


def _wait_ms(wanted: float) -> int:
    """The nearest whole number, as Java rounds: a half goes up."""
    return math.floor(min(wanted, WAIT_MS_MAX) + 0.5)
