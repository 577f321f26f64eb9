"""Moving a partition's log to another log directory of the same broker (KIP-113).

A future log is filled from the current one, a piece at a time between other work. When it has
caught up it is flushed and gets its final name, both in the background, while records go on to
come; in the turn in which it has all of them again it takes the other's place: appends and copies
happen on one thread, so none can come in between. A move that a stop interrupts goes on at the next
start, since the future log is found on disk.

Rules:
1. A partition has one future log at most; another destination abandons what was copied so far.
2. Asking for the directory in which the log lies ends a move.
3. One piece is copied per turn of the loop, whatever the number of moves.
4. What cannot be read is not moved: the current log stays what it is.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError, CorruptMessage, OffsetNotAvailable, ReplicaNotAvailable
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.directories import LogDirectory
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.flush import Flush
from ottla.storage.log import Log
from ottla.storage.manager import LogManager

PIECE_BYTES: Final = 1 << 20
BYTES_PER_SECOND_MIN: Final = 1
PAUSE_SECONDS: Final = 0.01
"""Before a move is looked at again that waits for something else."""


class _Move:
    """How far a future log is on its way to be the current one."""

    __slots__ = ("future", "is_busy", "is_flushed", "is_named")

    def __init__(self, future: Log) -> None:
        self.future = future
        self.is_flushed = False
        self.is_named = False
        self.is_busy = False
        """Whether something is done for it in the background."""


class LogMoves:
    def __init__(
        self,
        logs: LogManager,
        replicas: Replicas,
        scheduler: Scheduler,
        filesystem: Filesystem,
        *,
        moved: Callable[[Partition, LogDirectory], None],
        given_up: Callable[[TopicPartition, ApiError], None],
    ) -> None:
        """``moved`` is told of a partition that lies elsewhere, for the metadata to say so."""
        self._logs = logs
        self._replicas = replicas
        self._scheduler = scheduler
        self._filesystem = filesystem
        self._moves: dict[TopicPartition, _Move] = {}
        self._waiting: deque[TopicPartition] = deque()
        self._next_step: Cancellable | None = None
        self._bytes_per_second = float("inf")
        self._copied = 0
        self._copied_at = 0.0
        """How much the last step has copied, and when: it decides when the next one may come."""
        self._moved = moved
        self._given_up = given_up

    def __len__(self) -> int:
        return len(self._moves)

    @property
    def bytes_per_second(self) -> float:
        """``replica.alter.log.dirs.io.max.bytes.per.second``."""
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float) -> None:
        is_faster = rate > self._bytes_per_second
        self._bytes_per_second = rate
        if is_faster and self._next_step is not None:
            # What waits by the old rate may have hours to go.
            self._next_step.cancel()
            self._next_step = None
            self._schedule()

    def resume(self) -> None:
        """Go on with what was under way when the broker stopped."""
        for topic_partition, future in self._logs.future_logs.items():
            self._add(topic_partition, future)

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
            self._moves.pop(topic_partition, None)
            logs.abandon_future(topic_partition)
        if logs.directory_of(current) is destination:
            return
        self._add(topic_partition, logs.create_future(topic_partition, path))

    def _add(self, topic_partition: TopicPartition, future: Log) -> None:
        self._moves[topic_partition] = _Move(future)
        self._go_on(topic_partition)

    def _go_on(self, topic_partition: TopicPartition) -> None:
        if topic_partition not in self._waiting:
            self._waiting.append(topic_partition)
        if self._next_step is None:
            self._next_step = self._scheduler.call_soon(self._step)

    def _schedule(self) -> None:
        """Have the next step done when the last one has had its time."""
        if self._waiting and self._next_step is None:
            time = self._copied / max(self._bytes_per_second, BYTES_PER_SECOND_MIN)
            delay = max(0.0, self._copied_at + time - self._scheduler.monotonic())
            self._next_step = self._scheduler.call_later(delay, self._step)

    def _step(self) -> None:
        """Copy a piece of the first; the next turn is the next one's."""
        self._next_step = None
        self._copied, self._copied_at = 0, self._scheduler.monotonic()
        try:
            self._copy_next()
        finally:
            self._schedule()

    def _copy_next(self) -> None:
        while self._waiting:
            topic_partition = self._waiting.popleft()
            move = self._moves.get(topic_partition)
            if move is None:
                continue
            if not self._is_alive(topic_partition, move):
                del self._moves[topic_partition]
                continue
            try:
                self._copied = self._copy(topic_partition, move)
            except CorruptMessage as damage:
                self._give_up(topic_partition, damage)
            except OffsetNotAvailable:  # an index is being made anew
                self._scheduler.call_later(PAUSE_SECONDS, self._go_on, topic_partition)
            except ApiError:  # a directory has failed, and its logs are gone with it
                self._moves.pop(topic_partition, None)
            break

    def _is_alive(self, topic_partition: TopicPartition, move: _Move) -> bool:
        """Whether both logs are still there; one may be gone with its topic or its disk."""
        logs = self._logs
        return logs.future_logs.get(topic_partition) is move.future and topic_partition in logs.logs

    def _copy(self, topic_partition: TopicPartition, move: _Move) -> int:
        """Copy a piece, and go on if that was all; how much it was."""
        before = move.future.size()
        has_all = self._logs.copy_to_future(topic_partition, PIECE_BYTES)
        copied = max(0, move.future.size() - before)
        if not has_all and copied:
            self._waiting.append(topic_partition)
        elif not has_all:
            # Nothing is left of the last records but their offsets: it ends with the next one.
            self._scheduler.call_later(PAUSE_SECONDS, self._go_on, topic_partition)
        elif not move.is_busy:
            self._caught_up(topic_partition, move)
        return copied

    def _caught_up(self, topic_partition: TopicPartition, move: _Move) -> None:
        logs, future = self._logs, move.future
        if not move.is_flushed:
            flush = future.prepare_flush()
            if flush is not None:
                self._flush(topic_partition, move, flush)
                return
            move.is_flushed = future.recovery_point >= future.log_end_offset
            if move.is_flushed:
                self._waiting.append(topic_partition)
            else:
                # Another flush of it is under way; this one comes when that is done.
                self._scheduler.call_later(PAUSE_SECONDS, self._go_on, topic_partition)
        elif not move.is_named:
            path = logs.name_future(topic_partition)
            directories = [future.directory, path]
            self._in_background(topic_partition, move, lambda: self._sync(directories))
            move.is_named = True
        elif future.due_offset < logs.logs[topic_partition].due_offset:
            # Somebody has heard of records that are on disk in the current log alone.
            move.is_flushed = False
            self._waiting.append(topic_partition)
        else:
            del self._moves[topic_partition]
            log = logs.replace_current_with_future(topic_partition)
            partition = self._replicas.partition(*topic_partition)
            if partition is not None:
                partition.moved_to(log)
                self._moved(partition, logs.directory_of(log))

    def _sync(self, directories: list[str]) -> None:
        for directory in directories:
            self._filesystem.sync_directory(directory)

    def _flush(self, topic_partition: TopicPartition, move: _Move, flush: Flush) -> None:
        def flushed(error: OSError | None) -> None:
            move.future.flushed(flush, self._scheduler.wall_ms(), error)
            move.is_flushed = True

        self._in_background(topic_partition, move, flush.run, flushed)

    def _in_background(
        self,
        topic_partition: TopicPartition,
        move: _Move,
        work: Callable[[], None],
        done: Callable[[OSError | None], None] = lambda _error: None,
    ) -> None:
        directory = self._logs.directory_of(move.future)
        move.is_busy = True

        def settled(promise: Promise[None]) -> None:
            move.is_busy = False
            error: OSError | None = None
            try:
                promise.result()
            except OSError as raised:
                error = raised
            if self._moves.get(topic_partition) is not move:
                return
            if self._is_alive(topic_partition, move):  # else it was deleted, and its files with it
                try:
                    done(error)
                except ApiError:
                    pass  # its directory has failed by that
                else:
                    if error is not None and is_disks(error):
                        self._logs.fail_directory(directory.path, error)
                    elif error is not None:
                        move.is_named = False
            pause = 0.0 if error is None else PAUSE_SECONDS
            self._scheduler.call_later(pause, self._go_on, topic_partition)

        self._scheduler.run_in_background(work, directory.path).when_done(settled)

    def _give_up(self, topic_partition: TopicPartition, reason: ApiError) -> None:
        self._moves.pop(topic_partition, None)
        self._logs.abandon_future(topic_partition)
        self._given_up(topic_partition, reason)
