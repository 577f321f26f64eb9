"""What is done for one log again and again: copy what is closed, remove what has expired.

A leader copies and removes; a follower only takes note of what is copied, since it may delete that
from its own disk. Each task has at most one run under way; the next comes after the interval, or
after a pause that grows with each failure in a row.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import (
    ApiError,
    CorruptMessage,
    NotLeaderOrFollower,
    UnsupportedForMessageFormat,
)
from ottla.common.identifiers import random_uuid
from ottla.common.promise import Promise, fulfilled, run
from ottla.observability.logging import logger
from ottla.storage.log import Log
from ottla.tiered.copier import SegmentFiles
from ottla.tiered.driver.local_log import closed_segment, files_of, view_of
from ottla.tiered.driver.metrics import (
    COPY_LAG_BYTES,
    COPY_LAG_SEGMENTS,
    METADATA_COUNT,
    SIZE_BYTES,
    RemoteLogMetrics,
)
from ottla.tiered.driver.segment_work import SegmentWork
from ottla.tiered.log_view import LocalSegment
from ottla.tiered.machine import RemotePartition
from ottla.tiered.metadata_topic import MetadataTopic
from ottla.tiered.rewrite import rewritten
from ottla.tiered.segments import IF_UNUSED, RemoteLogSegment, TopicIdPartition, if_led_until
from ottla.tiered.settings import RemoteLogSettings
from ottla.tiered.store import RemoteStoreError

log = logger(__name__)

MAY_PASS: Final = (RemoteStoreError, ApiError, CorruptMessage, OSError)
"""What a task may meet: it is tried again."""

Task = Callable[[], Coroutine[Any, None, None]]


class RewrittenFiles(NamedTuple):
    """A segment that was made of others, on the local disk."""

    files: SegmentFiles
    size: int
    max_timestamp_ms: int


def backoff_seconds(settings: RemoteLogSettings, failures: int, chance: Chance) -> float:
    """The pause after so many failures in a row: longer each time, and never quite the same."""
    pause_ms = min(
        settings.retry_backoff_max_ms, settings.retry_backoff_ms << min(failures - 1, 16)
    )
    jitter = settings.retry_jitter
    return pause_ms * chance.between(1 - jitter, 1 + jitter) / 1000


class LogTasks:
    """The tasks of one log, until they are stopped."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log_now: Callable[[], Log | None],
        *,
        metadata: MetadataTopic,
        work: SegmentWork,
        settings: RemoteLogSettings,
        scheduler: Scheduler,
        chance: Chance,
        metrics: RemoteLogMetrics,
    ) -> None:
        self.partition = partition
        self._log_now = log_now
        self._metadata = metadata
        self._work = work
        self._settings = settings
        self._scheduler = scheduler
        self._chance = chance
        self._metrics = metrics
        self._busy: set[bytes] = set()
        """Segments that are being copied right now."""
        self._timers: dict[str, Cancellable] = {}
        self._running: dict[str, Promise[None]] = {}
        self._failures: dict[str, int] = {}
        self.is_stopped = False

    def lead(self, after: Promise[None]) -> None:
        after.when_done(lambda _: self._begin({"copy": self._copy, "expire": self._expire}))

    def follow(self, after: Promise[None]) -> None:
        after.when_done(lambda _: self._begin({"follow": self._take_note}))

    def stop(self) -> Promise[None]:
        """Begin nothing more; answers when nothing is under way."""
        self.is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        return (
            run(self._scheduler.turn, self._ended())
            if self._running
            else fulfilled(self._scheduler.turn, None)
        )

    async def _ended(self) -> None:
        while self._running:
            ended: Promise[None] = Promise(self._scheduler.turn)
            next(iter(self._running.values())).when_done(
                lambda _, ended=ended: ended.fulfil(None)  # type: ignore[misc]
            )
            await ended

    # When

    def _begin(self, tasks: dict[str, Task]) -> None:
        for name, task in tasks.items():
            self._timers[name] = self._scheduler.call_soon(self._run, name, task)

    def _run(self, name: str, task: Task) -> None:
        if self.is_stopped:
            return
        under_way = run(self._scheduler.turn, task())
        self._running[name] = under_way
        under_way.when_done(lambda done: self._done(name, task, done))

    def _done(self, name: str, task: Task, done: Promise[None]) -> None:
        del self._running[name]
        delay = self._settings.task_interval_ms / 1000
        try:
            done.result()
        except MAY_PASS as error:
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            delay = backoff_seconds(self._settings, failures, self._chance)
            if not self.is_stopped:
                log.warning(
                    "remote work failed",
                    task=name,
                    partition=str(self.partition),
                    failures=failures,
                    reason=repr(error),
                )
        else:
            self._failures.pop(name, None)
        finally:  # a mistake of ours is raised, and ends nothing
            if not self.is_stopped:
                self._timers[name] = self._scheduler.call_later(delay, self._run, name, task)

    # What

    async def _known(self) -> tuple[Log, RemotePartition] | None:
        """The log and what is known of its remote part; None when there is nothing to be done."""
        remote = await self._metadata.load(self.partition)
        local = self._log_now()
        if self.is_stopped or local is None or local.failure is not None:
            return None
        return local, remote

    async def _led(self) -> tuple[Log, RemotePartition] | None:
        """The same for a leader, which also says where the log begins."""
        known = await self._known()
        if known is not None:
            local, remote = known
            # What was checkpointed may be from before the last removals, and a leader that was
            # replaced may tell of its last ones late.
            self._move_start(local, remote.start_offset(view_of(local)))
            self._note(local, remote)
        return known

    def _move_start(self, local: Log, offset: int) -> None:
        local.delete_records_before(min(offset, local.high_watermark))

    def _note(self, local: Log, remote: RemotePartition) -> None:
        """Let the log know what it may delete, and people how it stands."""
        view = view_of(local)
        local.set_highest_remote_offset(remote.copied_offset(view))
        lag_bytes, lag_segments = remote.lag(view)
        _, topic, index = self.partition
        self._metrics.level(topic, index, COPY_LAG_BYTES, lag_bytes)
        self._metrics.level(topic, index, COPY_LAG_SEGMENTS, lag_segments)
        self._metrics.level(topic, index, SIZE_BYTES, remote.size())
        self._metrics.level(topic, index, METADATA_COUNT, len(remote.segments))

    async def _take_note(self) -> None:
        known = await self._known()
        if known is not None:
            self._note(*known)

    async def _copy(self) -> None:
        while (known := await self._led()) is not None:
            local, remote = known
            due = remote.next_copy(view_of(local))
            if due is None:
                return
            await self._copy_segment(local, remote, due)

    async def _copy_segment(self, local: Log, remote: RemotePartition, due: LocalSegment) -> None:
        view = view_of(local)
        first = max(due.base_offset, view.start_offset)
        if view.lineage.epoch_at(first) is None:
            # It would not be found in the store, and be copied again and again.
            raise UnsupportedForMessageFormat(
                f"the record at offset {first} has no leader epoch: remote storage begins behind "
                "the last record of an old format"
            )
        source = closed_segment(local, due.base_offset)
        copy = remote.copy_of(
            due,
            view.lineage,
            segment_id=random_uuid(self._chance),
            max_timestamp_ms=source.largest_timestamp(),
            transaction_index_empty=not source.transaction_index.entries,
            broker_id=self._settings.broker_id,
            now_ms=self._scheduler.wall_ms(),
        )
        files = files_of(local, source, due.end_offset)
        self._busy.add(copy.segment_id)
        try:
            await self._work.copy(copy, files, lambda: self.is_stopped)
        finally:
            self._busy.discard(copy.segment_id)

    async def replace(self, old: Sequence[bytes], rewrite: RewrittenFiles) -> RemoteLogSegment:
        """Let a rewritten segment take the place of others; see ``rewrite``."""
        known = await self._led()
        if known is None:
            raise NotLeaderOrFollower
        _, remote = known
        new = rewritten(
            remote.segments,
            old,
            segment_id=random_uuid(self._chance),
            size_in_bytes=rewrite.size,
            max_timestamp_ms=rewrite.max_timestamp_ms,
            transaction_index_empty=rewrite.files.transaction_index is None,
            broker_id=self._settings.broker_id,
            now_ms=self._scheduler.wall_ms(),
        )
        self._busy.add(new.segment_id)
        try:
            await self._work.copy(new, rewrite.files, lambda: self.is_stopped)
        finally:
            self._busy.discard(new.segment_id)
        for segment_id in old:
            replaced = remote.segments.get(segment_id)
            if replaced is not None:
                await self._work.remove(replaced, IF_UNUSED)
        return new

    async def _expire(self) -> None:
        known = await self._led()
        if known is None:
            return
        local, remote = known
        expired = remote.expire(view_of(local), self._scheduler.wall_ms(), self._busy)
        self._move_start(local, expired.log_start_offset)
        for removal in expired.removals:
            if self.is_stopped:
                return
            # Those before have taken their time, in which others may have told of this one.
            remote = self._metadata.find(self.partition)
            if remote.is_due(removal, self._busy):
                segment, condition = removal
                await self._work.remove(segment, condition or if_led_until(local.latest_epoch))
        if expired.removals:
            self._note(local, self._metadata.find(self.partition))
