"""Reads below the local start: found on the loop, done in threads of their own, answered later.

A segment may go while it is read: expired, or replaced by a rewritten one. Then it is looked for
once more, and only what is found neither time is an error. As in Kafka a store that fails is an
UNKNOWN_SERVER_ERROR for the reader, which tries again.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, ErrorCode, OffsetOutOfRange
from ottla.common.promise import Promise, run
from ottla.observability.logging import logger
from ottla.storage.log import Log
from ottla.storage.remote import RemoteData
from ottla.storage.time_search import TimestampAndOffset
from ottla.tiered.cache import Extent
from ottla.tiered.driver.local_log import lineage_of, owner_of
from ottla.tiered.driver.metrics import (
    FETCH_BYTES,
    FETCH_ERRORS,
    FETCH_REQUESTS,
    RemoteLogMetrics,
)
from ottla.tiered.metadata_topic import MetadataTopic
from ottla.tiered.pool import Pool, PoolIsFull
from ottla.tiered.quota import RemoteQuota
from ottla.tiered.reader import RemoteAbortedTransactions
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteObjectNotFound, RemoteStoreError

log = logger(__name__)

T = TypeVar("T")

ATTEMPTS: Final = 2


class RemoteReadFailed(ApiError):
    """The store did not give it, or too many wait already."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class SegmentReader(Protocol):
    """Reads segments; every call blocks. ``tiered.reader`` has it."""

    def read(
        self, segment: RemoteLogSegment, offset: int, max_bytes: int, *, upper_bound_offset: int
    ) -> RemoteData: ...

    def find_timestamp(
        self, segment: RemoteLogSegment, timestamp: int, start_offset: int
    ) -> TimestampAndOffset | None: ...

    def aborted_transactions(
        self, segments: list[RemoteLogSegment], offset: int, upper_bound_offset: int
    ) -> RemoteAbortedTransactions: ...

    def forget(self, segment: RemoteLogSegment) -> None: ...


class RemoteReads:
    """See the module."""

    def __init__(
        self,
        reader: SegmentReader,
        *,
        metadata: MetadataTopic,
        pool: Pool,
        quota: RemoteQuota,
        scheduler: Scheduler,
        metrics: RemoteLogMetrics,
    ) -> None:
        self._reader = reader
        self._metadata = metadata
        self._pool = pool
        self._quota = quota
        self._scheduler = scheduler
        self._metrics = metrics

    def read(
        self,
        local: Log,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int,
        read_committed: bool,
    ) -> Promise[RemoteData]:
        return run(
            self._scheduler.turn,
            self._read(local, offset, max_bytes, upper_bound_offset, read_committed),
        )

    async def _read(
        self, local: Log, offset: int, max_bytes: int, upper_bound_offset: int, committed: bool
    ) -> RemoteData:
        topic = local.topic_partition.topic
        self._metrics.count(topic, FETCH_REQUESTS)
        while delay := self._quota.delay(self._scheduler.monotonic()):
            paid: Promise[None] = Promise(self._scheduler.turn)
            self._scheduler.call_later(delay, paid.fulfil, None)
            await paid
        data = await self._retried(
            topic, lambda: self._read_once(local, offset, max_bytes, upper_bound_offset, committed)
        )
        self._quota.use(self._scheduler.monotonic(), len(data.records))
        self._metrics.count(topic, FETCH_BYTES, len(data.records))
        return data

    def _read_once(
        self, local: Log, offset: int, max_bytes: int, upper_bound_offset: int, committed: bool
    ) -> Promise[RemoteData]:
        extents = self._extents(local, offset)
        if not extents or extents[0].start_offset != offset:
            raise OffsetOutOfRange(f"no remote segment of {local.topic_partition} has {offset}")
        work = partial(
            _read_in_thread, self._reader, extents, offset, max_bytes, upper_bound_offset, committed
        )
        done: Promise[RemoteData] = Promise(self._scheduler.turn)

        def settle(read: Promise[tuple[RemoteData, bool]]) -> None:
            try:
                data, is_complete = read.result()
                if committed and not is_complete:
                    aborted = local.aborted_transactions(offset, data.next_offset)
                    data = data._replace(aborted=[*data.aborted, *aborted])
            except Exception as error:  # noqa: BLE001 - it belongs to the promise
                done.fail(error)
            else:
                done.fulfil(data)

        self._pool.submit(work).when_done(settle)
        return done

    def _extents(self, local: Log, offset: int) -> list[Extent]:
        """What the log finds from ``offset`` on, below what is on its own disk."""
        remote = self._metadata.find(owner_of(local))
        found: list[Extent] = []
        for extent in remote.segments.extents(lineage_of(local), offset):
            if extent.start_offset >= local.local_log_start_offset and found:
                break
            found.append(extent)
        return found

    def offset_for_timestamp(
        self, local: Log, timestamp: int, start_offset: int
    ) -> Promise[TimestampAndOffset | None]:
        def search() -> Promise[TimestampAndOffset | None]:
            extents = [
                extent
                for extent in self._extents(local, start_offset)
                if extent.segment.max_timestamp_ms >= timestamp
            ]
            return self._pool.submit(
                partial(_search_in_thread, self._reader, extents, timestamp, start_offset)
            )

        return run(self._scheduler.turn, self._retried(local.topic_partition.topic, search))

    async def _retried(self, topic: str, ask: Callable[[], Promise[T]]) -> T:
        """The outcome, from segments that were there the first or the second time."""
        for attempt in range(ATTEMPTS):
            try:
                return await ask()
            except RemoteObjectNotFound as error:
                if attempt + 1 < ATTEMPTS:
                    continue
                reason: Exception = error
            except (RemoteStoreError, PoolIsFull, OSError) as error:
                reason = error
            self._metrics.count(topic, FETCH_ERRORS)
            log.warning("remote read failed", topic=topic, reason=repr(reason))
            raise RemoteReadFailed(str(reason)) from reason
        raise AssertionError


# In threads


def _read_in_thread(
    reader: SegmentReader,
    extents: list[Extent],
    offset: int,
    max_bytes: int,
    upper_bound_offset: int,
    committed: bool,
) -> tuple[RemoteData, bool]:
    """The first records there are, and whether all their aborted transactions are known."""
    data = RemoteData(b"", offset, [])
    for number, extent in enumerate(extents):
        if extent.start_offset > data.next_offset or data.next_offset >= upper_bound_offset:
            break
        # What the log does not have of the segment is another leader's.
        bound = min(upper_bound_offset, extent.end_offset + 1)
        data = reader.read(extent.segment, data.next_offset, max_bytes, upper_bound_offset=bound)
        if data.records:
            if not committed:
                return data, True
            segments = _distinct(extents[number:])
            aborted = reader.aborted_transactions(segments, offset, data.next_offset)
            return data._replace(aborted=aborted.found), aborted.is_complete
        data = data._replace(next_offset=max(data.next_offset, extent.end_offset + 1))
    return data, True


def _distinct(extents: list[Extent]) -> list[RemoteLogSegment]:
    return list({extent.segment.segment_id: extent.segment for extent in extents}.values())


def _search_in_thread(
    reader: SegmentReader, extents: list[Extent], timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    for extent in extents:
        start = max(start_offset, extent.start_offset)
        found = reader.find_timestamp(extent.segment, timestamp, start)
        if found is not None and found.offset <= extent.end_offset:
            return found
    return None
