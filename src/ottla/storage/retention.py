"""Which segments go: those below the log start, then the oldest by size, then those by age.

Only from the front, and never at or above the high watermark: the log start offset must not pass
it. Where segments are copied to a remote store, size and age take only those that have arrived.
The active segment goes too when it has records and all before it go; the log then rolls first.
"""

from collections.abc import Callable, Sequence
from typing import Protocol


class Ages(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def known_largest_timestamp(self) -> int | None: ...


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
