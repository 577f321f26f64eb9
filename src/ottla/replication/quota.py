"""How fast throttled replicas are copied (KIP-73): bytes in windows, against a bound.

The rate is what came within the windows that are remembered, by the time that they cover; a new
quota counts as if the windows before it had been empty, so that it does not begin with a burst.
Counterpart in Apache Kafka: ``ReplicationQuotaManager``, ``SimpleRate``.
"""

from collections import deque


class ReplicationQuota:
    def __init__(self, *, window_count: int, window_seconds: float) -> None:
        self._window_count = window_count
        self._window_seconds = window_seconds
        self._windows: deque[tuple[float, int]] = deque()
        """When each began, and what came in it; the newest at the end."""
        self.bytes_per_second = float("inf")

    def record(self, size: int, now: float) -> None:
        windows = self._windows
        self._expire(now)
        if windows and now < windows[-1][0] + self._window_seconds:
            began, total = windows[-1]
            windows[-1] = (began, total + size)
        else:
            windows.append((now, size))

    def _expire(self, now: float) -> None:
        oldest = now - self._window_count * self._window_seconds
        windows = self._windows
        while windows and windows[0][0] <= oldest:
            windows.popleft()

    def rate(self, now: float) -> float:
        """Bytes a second, as of now."""
        self._expire(now)
        if not self._windows:
            return 0.0
        elapsed = max(now - self._windows[0][0], self._window_seconds)
        return sum(size for _, size in self._windows) / elapsed

    def is_exceeded(self, now: float) -> bool:
        return self.bytes_per_second != float("inf") and self.rate(now) > self.bytes_per_second


class ThrottledReplicas:
    """Which replicas of a topic are throttled, as ``*.replication.throttled.replicas`` says."""

    __slots__ = ("_all", "_partitions")

    def __init__(self, values: tuple[str, ...] | list[str], node_id: int) -> None:
        self._all = "*" in values
        wanted = str(node_id)
        pairs = [value.partition(":") for value in values]
        self._partitions = frozenset(int(index) for index, _, node in pairs if node == wanted)

    def __contains__(self, index: int) -> bool:
        return self._all or index in self._partitions
