"""Copies and removes single segments: records, objects and records again, one after the other.

The steps and their order are those of ``steps``; here they meet the store, in threads of their own.
"""

from collections.abc import Callable

from ottla.common.environment import Scheduler
from ottla.common.errors import CorruptMessage
from ottla.common.promise import Promise
from ottla.tiered.copier import SegmentFiles, remove, upload
from ottla.tiered.driver.metrics import (
    COPY_BYTES,
    COPY_ERRORS,
    COPY_REQUESTS,
    DELETE_ERRORS,
    DELETE_REQUESTS,
    RemoteLogMetrics,
)
from ottla.tiered.metadata_topic import MetadataTopic
from ottla.tiered.pool import Pool
from ottla.tiered.quota import RemoteQuota
from ottla.tiered.segments import IF_UNFINISHED, RemoteLogSegment, SegmentState, SegmentUpdate
from ottla.tiered.steps import Remove, Step, Tell, Upload, copy_steps, removal_steps
from ottla.tiered.store import RemoteStore, RemoteStoreError


class CopyCancelled(RemoteStoreError):
    """The broker leads the partition no longer, or stops."""


class CopyRefused(RemoteStoreError):
    """Somebody has removed the segment while it was copied, or all of the partition goes."""


class SegmentWork:
    """See the module."""

    def __init__(
        self,
        *,
        metadata: MetadataTopic,
        store: RemoteStore,
        forget: Callable[[RemoteLogSegment], None],
        copiers: Pool,
        expirers: Pool,
        quota: RemoteQuota,
        scheduler: Scheduler,
        broker_id: int,
        metrics: RemoteLogMetrics,
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._forget = forget
        self._copiers = copiers
        self._expirers = expirers
        self._quota = quota
        self._scheduler = scheduler
        self._broker_id = broker_id
        self._metrics = metrics

    def pause(self, seconds: float) -> Promise[None]:
        """Wait without blocking anybody."""
        over: Promise[None] = Promise(self._scheduler.turn)
        self._scheduler.call_later(seconds, over.fulfil, None)
        return over

    async def copy(
        self, segment: RemoteLogSegment, files: SegmentFiles, cancelled: Callable[[], bool]
    ) -> None:
        """Have a finished copy, or an exception and nothing that counts."""
        while delay := self._quota.delay(self._scheduler.monotonic()):
            await self.pause(delay)
            if cancelled():
                raise CopyCancelled(str(segment.partition))
        self._quota.use(self._scheduler.monotonic(), segment.size_in_bytes)
        topic = segment.partition.topic
        self._metrics.count(topic, COPY_REQUESTS)
        started, uploaded, finished = copy_steps(segment)
        if not await self._perform(started):
            raise CopyRefused(str(segment.partition))
        try:
            await self._perform(uploaded, files, cancelled)
            if cancelled():
                # Another leader may copy the same by now.
                raise CopyCancelled(str(segment.partition))
        except (RemoteStoreError, OSError, CorruptMessage):
            self._metrics.count(topic, COPY_ERRORS)
            await self.remove(segment, IF_UNFINISHED)
            raise
        if not await self._perform(finished):
            await self._perform(Remove(segment))
            raise CopyRefused(str(segment.partition))
        self._metrics.count(topic, COPY_BYTES, segment.size_in_bytes)

    async def remove(self, segment: RemoteLogSegment, condition: bytes | None = None) -> None:
        """Have nothing left of it, if it is as it must be; others may have begun or finished that.

        See ``segments`` for the conditions.
        """
        topic = segment.partition.topic
        self._metrics.count(topic, DELETE_REQUESTS)
        begun, removed, finished = removal_steps(segment, condition)
        try:
            if not await self._perform(begun):
                return  # it is needed, or another has had nothing left of it meanwhile
            await self._perform(removed)
            await self._perform(finished)
        except RemoteStoreError:
            self._metrics.count(topic, DELETE_ERRORS)
            raise

    async def _perform(
        self,
        step: Step,
        files: SegmentFiles | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        """Do one step to its end; False when it was told and did not take effect."""
        if isinstance(step, Tell):
            return await self._metadata.write(self._record(step))
        if isinstance(step, Upload):
            assert files is not None
            assert cancelled is not None
            await self._copiers.submit(lambda: self._upload(step.segment, files, cancelled))
        else:
            await self._expirers.submit(lambda: self._remove(step.segment))
        return True

    def _record(self, step: Tell) -> RemoteLogSegment | SegmentUpdate:
        segment = step.segment
        if step.state is SegmentState.COPY_SEGMENT_STARTED:
            return segment
        return SegmentUpdate(
            partition=segment.partition,
            segment_id=segment.segment_id,
            state=step.state,
            event_timestamp_ms=self._scheduler.wall_ms(),
            broker_id=self._broker_id,
            custom_metadata=step.condition or segment.custom_metadata,
        )

    # In threads

    def _upload(
        self, segment: RemoteLogSegment, files: SegmentFiles, cancelled: Callable[[], bool]
    ) -> None:
        def go_on(_size: int) -> None:
            if cancelled():
                raise CopyCancelled(str(segment.partition))

        go_on(0)
        upload(self._store, segment, files, go_on)

    def _remove(self, segment: RemoteLogSegment) -> None:
        remove(self._store, segment)
        self._forget(segment)
