"""The remote tier of all logs of a broker: who leads is told to it, and readers ask it.

Everything here runs on the loop. What blocks goes to three pools: copies, removals and reads, each
with its own bound, so that none of them waits for another, nor anybody else for them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import NotLeaderOrFollower
from ottla.common.promise import Promise, failed, first_of, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.observability.logging import logger
from ottla.storage.log import Log
from ottla.storage.remote import RemoteData
from ottla.storage.time_search import TimestampAndOffset
from ottla.tiered.driver.follower_starts import FollowerStarts, LeaderLog
from ottla.tiered.driver.local_log import owner_of
from ottla.tiered.driver.log_tasks import MAY_PASS, LogTasks, RewrittenFiles, backoff_seconds
from ottla.tiered.driver.metrics import RemoteLogMetrics
from ottla.tiered.driver.reads import RemoteReads, SegmentReader
from ottla.tiered.driver.segment_work import SegmentWork
from ottla.tiered.machine import RemotePartition
from ottla.tiered.metadata_topic import Key, MetadataTopic
from ottla.tiered.pool import Background, Pool
from ottla.tiered.quota import RemoteQuota
from ottla.tiered.segments import (
    DeleteState,
    PartitionDeletion,
    RemoteLogSegment,
    TopicIdPartition,
)
from ottla.tiered.settings import RemoteLogSettings
from ottla.tiered.store import RemoteStore

log = logger(__name__)

STOP_SECONDS: Final = 10.0
"""How long a stop waits for what is under way in the remote store."""
GONE_SECONDS: Final = 10.0
GONE_LOOKS: Final = 3
"""How often, and how often in a row, is looked whether a topic is gone."""


class RemoteLogManager:
    """See the module. It is what ``storage.remote.RemoteLogs`` asks for."""

    def __init__(
        self,
        settings: RemoteLogSettings,
        *,
        store: RemoteStore,
        reader: SegmentReader,
        metadata: MetadataTopic,
        background: Background,
        scheduler: Scheduler,
        chance: Chance,
        log_of: Callable[[TopicPartition], Log | None],
        topic_exists: Callable[[bytes], bool],
        is_current: Callable[[], bool],
        metrics: RemoteLogMetrics,
    ) -> None:
        """``is_current`` tells whether what ``topic_exists`` knows is not old."""
        self._settings = settings
        self._metadata = metadata
        self._scheduler = scheduler
        self._chance = chance
        self._log_of = log_of
        self._topic_exists = topic_exists
        self._is_current = is_current
        self._missing: dict[Key, int] = {}
        """Partitions of topics that there are not, and how often that was seen."""
        self._looking: Cancellable | None = None
        self._metrics = metrics
        self._copiers = Pool(background, scheduler.turn, settings.copier_threads)
        self._expirers = Pool(background, scheduler.turn, settings.expiration_threads)
        self._readers = Pool(
            background, scheduler.turn, settings.reader_threads, settings.reader_pending_max
        )
        self._copy_quota = RemoteQuota(settings.copy_bytes_per_second)
        self._fetch_quota = RemoteQuota(settings.fetch_bytes_per_second)
        self._work = SegmentWork(
            metadata=metadata,
            store=store,
            forget=reader.forget,
            copiers=self._copiers,
            expirers=self._expirers,
            quota=self._copy_quota,
            scheduler=scheduler,
            broker_id=settings.broker_id,
            metrics=metrics,
        )
        self._reads = RemoteReads(
            reader,
            metadata=metadata,
            pool=self._readers,
            quota=self._fetch_quota,
            scheduler=scheduler,
            metrics=metrics,
        )
        self._starts = FollowerStarts(metadata, store, self._readers, scheduler)
        self._tasks: dict[Key, LogTasks] = {}
        self._followed: set[TopicIdPartition] = set()
        self._emptying: dict[Key, Promise[None]] = {}
        """Partitions whose remote part is being removed as a whole."""
        self._disabled: dict[Key, int] = {}
        """Those whose topic goes on without it, and the epoch in which this broker leads them; a
        topic may get another remote part while this one goes."""
        self._is_closed = False

    def configure(self, settings: RemoteLogSettings) -> None:
        """Follow other settings from now on; intervals and pauses hold for new logs."""
        self._settings = settings
        self._copiers.size = settings.copier_threads
        self._expirers.size = settings.expiration_threads
        self._readers.size = settings.reader_threads
        self._copy_quota.bytes_per_second = settings.copy_bytes_per_second
        self._fetch_quota.bytes_per_second = settings.fetch_bytes_per_second

    # Who leads

    def lead(self, partition: TopicIdPartition) -> None:
        """This broker leads a log with a remote part: copy and expire."""
        if partition in self._followed:
            self.stop(partition)
        self._disabled.pop(_key(partition), None)
        tasks = self._begin(partition)
        if tasks is not None:
            tasks.lead(self._emptied(partition))

    def follow(self, partition: TopicIdPartition) -> None:
        """Another broker leads it: only take note of what is copied."""
        if partition not in self._followed:
            self.stop(partition)
        self._disabled.pop(_key(partition), None)
        tasks = self._begin(partition)
        if tasks is not None:
            self._followed.add(partition)
            tasks.follow(self._emptied(partition))

    def start_follower(self, partition: TopicIdPartition, leader: LeaderLog) -> None:
        """Let a followed log begin where the leader's disk does: the store has what was before."""

        def followed() -> Log | None:
            is_followed = partition in self._followed and not self._is_closed
            local = self._log_of(_where(partition)) if is_followed else None
            return None if local is None or local.failure is not None else local

        self._starts.begin(partition, leader, followed)

    def _begin(self, partition: TopicIdPartition) -> LogTasks | None:
        key = _key(partition)
        if key in self._tasks or self._is_closed:
            return None
        tasks = self._tasks[key] = LogTasks(
            partition,
            partial(self._log_of, _where(partition)),
            metadata=self._metadata,
            work=self._work,
            settings=self._settings,
            scheduler=self._scheduler,
            chance=self._chance,
            metrics=self._metrics,
        )
        return tasks

    def _emptied(self, partition: TopicIdPartition) -> Promise[None]:
        """When an earlier life of the partition in the remote store has ended."""
        return self._emptying.get(_key(partition), fulfilled(self._scheduler.turn, None))

    def stop(self, partition: TopicIdPartition) -> Promise[None]:
        """Do nothing more for a log; answers when nothing is under way.

        What was to go because its remote part is disabled is left to the next leader.
        """
        self._disabled.pop(_key(partition), None)
        return self._stop_tasks(partition)

    def _stop_tasks(self, partition: TopicIdPartition) -> Promise[None]:
        tasks = self._tasks.pop(_key(partition), None)
        if tasks is None:
            return fulfilled(self._scheduler.turn, None)
        self._followed.discard(partition)
        self._metrics.forget(partition.topic, partition.partition)
        return tasks.stop()

    def replace(
        self, partition: TopicIdPartition, old: Sequence[bytes], rewrite: RewrittenFiles
    ) -> Promise[RemoteLogSegment]:
        """Let a rewritten segment take the place of those with the ids ``old``."""
        tasks = self._tasks.get(_key(partition))
        if tasks is None or partition in self._followed:
            return failed(self._scheduler.turn, NotLeaderOrFollower())
        return run(self._scheduler.turn, tasks.replace(old, rewrite))

    # Emptying

    def disabled(self, partition: TopicIdPartition, leader_epoch: int) -> None:
        """Its topic has no remote part any more: the log begins on this disk, the rest goes.

        What a later leader has copied stays: the topic has a remote part again by then.
        """
        local = self._log_of(_where(partition))
        if local is not None and local.failure is None:
            local.delete_records_before(min(local.local_log_start_offset, local.high_watermark))
        self._disabled[_key(partition)] = leader_epoch
        self._empty(partition, is_gone=False)

    def deleted(self, partition: TopicIdPartition) -> None:
        """Its topic is gone, and so is to be all that the remote store has of it.

        The leader of the partition that tells of it sees to that: there is just one at a time.
        """
        if self._metadata.is_led(partition):
            self._empty(partition, is_gone=True)
        else:
            self.stop(partition)

    def resume(self, known: list[RemotePartition]) -> None:
        """What was to go before the last restart still is."""
        for remote in known:
            if remote.deletion is not None:
                self._empty(remote.partition, is_gone=True)
        if self._looking is None and not self._is_closed:
            self._looking = self._scheduler.call_later(GONE_SECONDS, self._look_for_gone)

    def _look_for_gone(self) -> None:
        """Empty what belongs to topics that are gone, and that nobody has seen to.

        A topic that is not known here yet may have records already: a broker that knows it leads
        it. So it is gone only when it is missed again and again, by one that has heard the latest.
        """
        self._looking = self._scheduler.call_later(GONE_SECONDS, self._look_for_gone)
        if not self._is_current():
            self._missing.clear()
            return
        missing: dict[Key, int] = {}
        for remote in self._metadata.led():
            key = _key(remote.partition)
            if remote.deletion is not None:
                self._empty(remote.partition, is_gone=True)
            elif not self._topic_exists(remote.partition.topic_id):
                missing[key] = self._missing.get(key, 0) + 1
                if missing[key] >= GONE_LOOKS:
                    self._empty(remote.partition, is_gone=True)
        self._missing = missing

    def _empty(self, partition: TopicIdPartition, *, is_gone: bool) -> None:
        key = _key(partition)
        stopped = self._stop_tasks(partition)
        if not self._metadata.exists or key in self._emptying or self._is_closed:
            return
        done: Promise[None] = Promise(self._scheduler.turn)
        self._emptying[key] = done

        def ended(outcome: Promise[None]) -> None:
            del self._emptying[key]
            done.fulfil(None)
            outcome.result()

        run(self._scheduler.turn, self._remove_all(partition, stopped, is_gone=is_gone)).when_done(
            ended
        )

    async def _remove_all(
        self, partition: TopicIdPartition, stopped: Promise[None], *, is_gone: bool
    ) -> None:
        """Until nothing is left, however often it takes, or it is not to go any more."""
        await stopped
        failures = 0
        while not self._is_closed and (is_gone or _key(partition) in self._disabled):
            try:
                await self._remove_once(partition, is_gone=is_gone)
            except MAY_PASS as error:
                failures += 1
                log.warning(
                    "a remote partition is not removed yet",
                    partition=str(partition),
                    failures=failures,
                    reason=repr(error),
                )
                await self._work.pause(backoff_seconds(self._settings, failures, self._chance))
            else:
                return

    async def _remove_once(self, partition: TopicIdPartition, *, is_gone: bool) -> None:
        remote = await self._metadata.load(partition)
        is_known = len(remote.segments) > 0 or remote.deletion is not None
        if is_gone and is_known:
            if remote.deletion is None:
                await self._tell(partition, DeleteState.DELETE_PARTITION_MARKED)
            await self._tell(partition, DeleteState.DELETE_PARTITION_STARTED)
        if not is_gone:
            await self._remove_disabled(partition, remote)
            return
        while remote.segments:  # somebody may have begun another copy meanwhile
            for segment in remote.segments:
                await self._work.remove(segment)
            remote = self._metadata.find(partition)
        if is_known:
            await self._tell(partition, DeleteState.DELETE_PARTITION_FINISHED)
        self._metadata.forget(partition)

    async def _remove_disabled(self, partition: TopicIdPartition, remote: RemotePartition) -> None:
        """Remove what was copied up to the epoch in which this broker leads, while it does."""
        key = _key(partition)
        while True:
            epoch = self._disabled.get(key, -1)
            segments = [each for each in remote.segments if each.copied_in_epoch <= epoch]
            if not segments or key not in self._disabled:
                return
            for segment in segments:
                if self._disabled.get(key) != epoch:
                    break
                if not self._is_current():
                    raise NotLeaderOrFollower("it is not known whether this broker still leads")
                await self._work.remove(segment)
            remote = self._metadata.find(partition)

    async def _tell(self, partition: TopicIdPartition, state: DeleteState) -> None:
        await self._metadata.write(
            PartitionDeletion(partition, state, self._scheduler.wall_ms(), self._settings.broker_id)
        )

    # Readers

    def read(
        self,
        log: Log,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int,
        read_committed: bool,
    ) -> Promise[RemoteData]:
        return self._reads.read(
            log,
            offset,
            max_bytes,
            upper_bound_offset=upper_bound_offset,
            read_committed=read_committed,
        )

    def offset_for_timestamp(
        self, log: Log, timestamp: int, start_offset: int
    ) -> Promise[TimestampAndOffset | None]:
        return self._reads.offset_for_timestamp(log, timestamp, start_offset)

    def size(self, log: Log) -> int:
        """Bytes of a log in the remote store, as far as that is known here."""
        return self._metadata.find(owner_of(log)).size()

    # The end

    def close(self) -> Promise[None]:
        """Begin nothing more; answers when no copy is under way, or the store does not answer.

        What it does later counts for nothing: nobody tells of it any more.
        """
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
        return run(self._scheduler.turn, self._close())

    async def _close(self) -> None:
        stopped = [tasks.stop() for tasks in self._tasks.values()]
        self._tasks.clear()
        self._metadata.close()
        turn = self._scheduler.turn
        overdue: Promise[None] = Promise(turn)
        timer = self._scheduler.call_later(STOP_SECONDS, overdue.fulfil, None)
        for each in stopped:
            await first_of(turn, each, overdue)
        timer.cancel()
        if overdue.done:
            log.error("the remote store does not answer, and is not waited for")


def _where(partition: TopicIdPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _key(partition: TopicIdPartition) -> Key:
    return partition.topic_id, partition.partition
