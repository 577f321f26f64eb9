"""Moving a partition's log to another log directory of the same broker (KIP-113).

A future log is filled from the current one, a piece at a time between other work. In the turn in
which it has caught up it takes the other's place: appends and copies happen on one thread, so none
can come in between. A move that a stop interrupts goes on at the next start, since the future log
is found on disk.

Rules:
1. A partition has one future log at most; another destination abandons what was copied so far.
2. Asking for the directory in which the log lies ends a move.
3. One piece is copied per turn of the loop, whatever the number of moves.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, ReplicaNotAvailable
from ottla.common.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.directories import LogDirectory
from ottla.storage.manager import LogManager

PIECE_BYTES: Final = 1 << 20


class LogMoves:
    def __init__(self, logs: LogManager, replicas: Replicas, scheduler: Scheduler) -> None:
        self._logs = logs
        self._replicas = replicas
        self._scheduler = scheduler
        self._moving: deque[TopicPartition] = deque()
        self._is_running = False
        self.bytes_per_second: float = float("inf")
        """``replica.alter.log.dirs.io.max.bytes.per.second``."""
        self.on_moved: Callable[[Partition, LogDirectory], None] = lambda _partition, _to: None
        """Called when a partition lies elsewhere, for the cluster's metadata to say so."""

    def __len__(self) -> int:
        return len(self._moving)

    def resume(self) -> None:
        """Go on with what was under way when the broker stopped."""
        for topic_partition in self._logs.future_logs:
            self._add(topic_partition)

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin to move a log to ``path``; ApiError when it cannot be."""
        logs = self._logs
        destination = logs.online_directory(path)
        current = logs.logs.get(topic_partition)
        if current is None or self._replicas.partition(*topic_partition) is None:
            raise ReplicaNotAvailable
        future = logs.future_logs.get(topic_partition)
        if future is not None:
            if logs.directory_of(future) is destination:
                return
            logs.abandon_future(topic_partition)
        if logs.directory_of(current) is destination:
            return
        logs.create_future(topic_partition, path)
        self._add(topic_partition)

    def _add(self, topic_partition: TopicPartition) -> None:
        if topic_partition not in self._moving:
            self._moving.append(topic_partition)
        if not self._is_running:
            self._is_running = True
            self._scheduler.call_soon(self._step)

    def _step(self) -> None:
        """Copy a piece of the first; the next turn is the next one's."""
        delay = 0.0
        while self._moving:
            topic_partition = self._moving.popleft()
            if topic_partition not in self._logs.future_logs:
                continue  # moved, abandoned, or gone with its topic or its disk
            with suppress(ApiError):  # the directory has failed, and its logs are gone with it
                delay = self._copy(topic_partition)
            break
        self._is_running = bool(self._moving)
        if self._is_running:
            self._scheduler.call_later(delay, self._step)

    def _copy(self, topic_partition: TopicPartition) -> float:
        """Copy a piece, and finish if that was all; how long to wait before the next one."""
        logs = self._logs
        future = logs.future_logs[topic_partition]
        before = future.size()
        if logs.copy_to_future(topic_partition, PIECE_BYTES):
            self._finish(topic_partition)
        else:
            self._moving.append(topic_partition)
        return max(0, future.size() - before) / self.bytes_per_second

    def _finish(self, topic_partition: TopicPartition) -> None:
        log = self._logs.replace_current_with_future(topic_partition)
        partition = self._replicas.partition(*topic_partition)
        if partition is not None:
            partition.log = log
            self.on_moved(partition, self._logs.directory_of(log))
