"""Which segments go: those below the log start, then the oldest by size, then those by age.

Only from the front, and never at or above the high watermark: the log start offset must not pass
it. Where segments are copied to a remote store, size and age take only those that have arrived.
The active segment goes too when it has records and all before it go; the log then rolls first.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ottla.storage.config import LogConfig, local_retention


class Ages(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def known_largest_timestamp(self) -> int | None: ...


class Retained(Protocol):
    """What is asked of a log."""

    @property
    def segments(self) -> Iterable[Ages]: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def saved_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def highest_remote_offset(self) -> int: ...


def count_to_delete(log: Retained, config: LogConfig, *, is_copied: bool, now_ms: int) -> int:
    """How many segments from the first one on a log deletes now.

    Of one that ``is_copied`` to a remote store what has arrived there goes by its local retention.
    """
    retention_bytes, retention_ms = config.retention_bytes, config.retention_ms
    if is_copied:
        retention_bytes, retention_ms = local_retention(config)
    by_age_and_size = "delete" in config.cleanup_policy
    segments = list(log.segments)
    count = count_expired(
        segments,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        retention_bytes=retention_bytes if by_age_and_size else -1,
        retention_ms=retention_ms if by_age_and_size else -1,
        now_ms=now_ms,
        copied_to=log.highest_remote_offset + 1 if is_copied else None,
    )
    return _count_settled(log, segments, count) if is_copied else count


def _count_settled(log: Retained, segments: list[Ages], count: int) -> int:
    """How many of the first ``count`` segments a crash may not miss.

    Records below the log start were perhaps never copied. They are neither here nor in the remote
    store when their segment goes; by then the disk says that the log begins behind them.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    for number in range(count):
        below = min(log.log_start_offset, ends[number])
        if segments[number].base_offset < below and log.saved_start_offset < below:
            return number
    return count


def count_expired(
    segments: Sequence[Ages],
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    retention_bytes: int,
    retention_ms: int,
    now_ms: int,
    copied_to: int | None = None,
) -> int:
    """How many segments from the first one on are to go; negative limits are none.

    ``copied_to`` is the offset behind the last one that the remote store has, where there is one.
    """
    bounds = [segment.base_offset for segment in segments[1:]]
    ends = [*bounds, log_end_offset]
    count = 0
    limit = high_watermark

    def advance(expired: Callable[[int], bool]) -> None:
        nonlocal count
        while count < len(segments):
            is_last = count == len(bounds)
            if ends[count] > limit or (is_last and segments[count].size == 0):
                return
            if not expired(count):
                return
            count += 1

    advance(lambda number: number < len(bounds) and bounds[number] <= log_start_offset)
    if copied_to is not None:
        limit = min(high_watermark, copied_to)
    if retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - retention_bytes

        def too_much(number: int) -> bool:
            nonlocal excess
            excess -= segments[number].size
            return excess >= 0

        advance(too_much)
    if retention_ms >= 0:

        def too_old(number: int) -> bool:
            largest = segments[number].known_largest_timestamp()
            return largest is not None and now_ms - largest > retention_ms

        advance(too_old)
    return count
