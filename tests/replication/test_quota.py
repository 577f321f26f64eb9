"""The rate of throttled replicas, and which are throttled."""

from ottla.replication.quota import ReplicationQuota, ThrottledReplicas


def test_the_rate_is_over_the_windows_that_are_remembered() -> None:
    quota = ReplicationQuota(window_count=3, window_seconds=1.0)
    assert quota.rate(0.0) == 0.0
    quota.record(100, 0.0)
    quota.record(100, 0.5)
    assert quota.rate(0.5) == 200.0, "one window at least, however young"
    quota.record(200, 2.0)
    assert quota.rate(2.0) == 200.0
    assert quota.rate(3.5) == 200 / 1.5, "what is older than three windows is forgotten"
    assert quota.rate(9.0) == 0.0


def test_without_a_bound_nothing_is_too_much() -> None:
    quota = ReplicationQuota(window_count=3, window_seconds=1.0)
    quota.record(1 << 40, 0.0)
    assert not quota.is_exceeded(0.0)
    quota.bytes_per_second = 1 << 30
    assert quota.is_exceeded(0.0)
    assert not quota.is_exceeded(10.0)


def test_throttled_replicas_are_named_by_partition_and_broker_or_all() -> None:
    named = ThrottledReplicas(["0:1", "2:1", "1:7"], 1)
    assert [index in named for index in range(4)] == [True, False, True, False]
    assert 9 in ThrottledReplicas(["*"], 1)
    assert 0 not in ThrottledReplicas([], 1)
