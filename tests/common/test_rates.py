"""Rates in windows and buckets of tokens: against plain models, and as Apache Kafka was seen."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.common import rates
from ottla.common.rates import UNUSED_MS, Buckets, SampledRate, TokenBucket

WINDOWS, WINDOW_MS = 11, 1_000


def test_the_throttle_times_that_apache_kafka_was_seen_to_tell() -> None:
    """Requests of 50,072 bytes at 10,000 a second, each as soon as the one before is answered."""
    rate, now = SampledRate(WINDOWS, WINDOW_MS), 1_000_000
    told = []
    for waits in (0, 5, 10, 5_004):
        now += waits
        rate.record(50_072, now)
        told.append(rate.throttle_ms(10_000, now))
    assert told == [0, 9, 5007, 10010]


def test_a_burst_of_all_windows_but_one_passes_after_silence() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    rate.record(10_000, 5)
    assert rate.throttle_ms(1_000, 5) == 0
    rate.record(1, 5)
    assert rate.throttle_ms(1_000, 5) == 1


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    rate.record(10_000, 5)
    rate.record(500, 6)
    rate.record(-500, 6)
    assert rate.total(6) == 10_000
    assert rate.throttle_ms(1_000, 6) == 0


def test_a_window_goes_when_nothing_has_come_in_it_for_as_long_as_all_of_them() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    rate.record(1, 0)
    rate.record(2, 900)
    assert rate.total(900 + 10_999) == 3
    assert rate.total(900 + 11_000) == 0


@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 1_000)), min_size=1, max_size=60),
    st.integers(1, 5),
)
def test_what_is_counted_is_what_came_in_windows_that_live(
    events: list[tuple[int, int]], windows: int
) -> None:
    rate = SampledRate(windows, WINDOW_MS)
    known: list[list[int]] = []
    """When each window began, when something came in it last, and what came."""
    now = 7
    for wait, value in events:
        now += wait
        live = [each for each in known if now - each[1] < windows * WINDOW_MS]
        if live and live[-1] is known[-1] and now - known[-1][0] < WINDOW_MS:
            known[-1][1:] = [now, known[-1][2] + value]
        else:
            known.append([now, now, value])
        rate.record(value, now)
        live = [each for each in known if now - each[1] < windows * WINDOW_MS]
        assert rate.total(now) == sum(each[2] for each in live[-(windows + 1) :])
        span = rate.span_ms(now)
        assert (windows - 1) * WINDOW_MS <= span <= (windows + 1) * WINDOW_MS
        assert span >= 1


@given(
    st.integers(100, 1_000_000),
    st.lists(st.integers(1, 500_000), min_size=1, max_size=80),
)
@example(362, [7602] * 80)
def test_who_waits_as_told_gets_less_than_twice_its_rate_and_one_burst(
    bound: int, sizes: list[int]
) -> None:
    """As in Kafka: what was counted is forgotten after all windows, when all but one were waited.

    So 21 seconds' worth at once cost 11 seconds, again and again; more or less cost more.
    """
    rate = SampledRate(WINDOWS, WINDOW_MS)
    now = began = 1_000
    total = 0
    for size in sizes:
        rate.record(size, now)
        total += size
        now += rate.throttle_ms(bound, now)
    burst = bound * WINDOWS * WINDOW_MS / 1000
    most = bound * (2 * WINDOWS - 1) / WINDOWS
    assert total <= most * (now - began + 2 * len(sizes)) / 1000 + burst + max(sizes)


# Tokens


def test_the_tokens_that_apache_kafka_was_seen_to_have() -> None:
    """Two a second, of which 22 fit: topics of ten partitions."""
    bucket = TokenBucket(11)
    bucket.take(20, 2.0, 1_000)
    assert bucket.tokens(2.0, 1_000) == 2
    bucket.take(10, 2.0, 1_030)
    assert bucket.throttle_ms(2.0, 1_060) == 3940


class Tokens(RuleBasedStateMachine):
    """Against exact numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket = TokenBucket(11)
        self.tokens: Fraction | None = None
        self.rate = Fraction(2)
        self.now = 500

    def refilled(self, ms: int) -> Fraction:
        full = self.rate * 11
        if self.tokens is None:
            return full
        return min(full, self.tokens + self.rate * ms / 1000)

    @rule(ms=st.integers(0, 30_000))
    def wait(self, ms: int) -> None:
        self.tokens = self.refilled(ms)
        self.now += ms

    @rule(number=st.integers(0, 60))
    def take(self, number: int) -> None:
        self.tokens = self.refilled(0) - number
        self.bucket.take(number, float(self.rate), self.now)

    @rule(rate=st.sampled_from([Fraction(1, 2), Fraction(2), Fraction(50)]))
    def change(self, rate: Fraction) -> None:
        self.bucket.tokens(float(self.rate), self.now)
        self.rate = rate
        self.tokens = self.refilled(0)

    @invariant()
    def has_the_same(self) -> None:
        expected = self.refilled(0)
        assert self.bucket.tokens(float(self.rate), self.now) == pytest.approx(float(expected))
        self.tokens = expected
        waits = self.bucket.throttle_ms(float(self.rate), self.now)
        assert waits == pytest.approx(max(0.0, float(-expected / self.rate * 1000)), abs=1)


TestTokens = Tokens.TestCase


# Buckets


class ManyBuckets(RuleBasedStateMachine):
    """Against all that were ever used, with the time of their last use."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets: Buckets[str, list[int]] = Buckets(list)
        self.used: dict[str, tuple[list[int], int]] = {}
        self.now = 0

    @rule(ms=st.sampled_from([1, 1_000, UNUSED_MS // 2, UNUSED_MS]))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(name=st.sampled_from("abcdefgh"))
    def use(self, name: str) -> None:
        self.used = {k: v for k, v in self.used.items() if k == name or self.now - v[1] < UNUSED_MS}
        known = self.used.get(name)
        bucket = self.buckets.of(name, self.now)
        if known is None:
            assert bucket == []
        else:
            assert bucket is known[0]
        bucket.append(self.now)
        self.used[name] = bucket, self.now
        assert len(self.buckets) == len(self.used)


TestManyBuckets = ManyBuckets.TestCase


def test_of_too_many_buckets_the_least_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "BUCKETS_MAX", 3)
    buckets: Buckets[str, list[int]] = Buckets(list)
    first = buckets.of("a", 1)
    buckets.of("b", 2)
    buckets.of("c", 3)
    assert buckets.of("a", 4) is first
    buckets.of("d", 5)
    assert len(buckets) == 3
    assert buckets.of("a", 6) is first


def test_a_bound_of_any_size_gives_a_finite_time() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    rate.record(1e12, 1)
    assert rate.throttle_ms(math.inf, 1) == 0
    assert rate.throttle_ms(1e-6, 1) > 0
