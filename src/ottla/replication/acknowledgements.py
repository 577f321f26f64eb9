"""Who waits for the high watermark of a partition to pass an offset, the lowest offset first.

Thousands may wait: the high watermark's step costs only those that it releases.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from ottla.common.errors import ApiError
from ottla.common.mistakes import raise_first

Acknowledge: TypeAlias = Callable[[ApiError | None], None]
"""Called once: with None when the offset is committed, or with why it never will be heard of."""


class Acknowledgements:
    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Acknowledge]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, acknowledge: Acknowledge) -> None:
        """Call ``acknowledge`` when the high watermark is above ``offset``."""
        self._count += 1
        heappush(self._waiting, (offset, self._count, acknowledge))

    def passed(self, high_watermark: int) -> None:
        """Everything below ``high_watermark`` is committed."""
        # Who is told may write, find that the disk fails, and so have the others told of that.
        errors: list[Exception] | None = None
        while self._waiting and self._waiting[0][0] < high_watermark:
            try:
                heappop(self._waiting)[2](None)
            except Exception as error:  # noqa: BLE001 - raised below, when all are told
                errors = errors or []
                errors.append(error)
        if errors is not None:
            raise_first(errors)

    def fail(self, error: ApiError) -> None:
        """Nobody will tell here: this broker leads no more."""
        waiting, self._waiting = self._waiting, []
        errors: list[Exception] | None = None
        for _, _, acknowledge in sorted(waiting, key=lambda entry: entry[:2]):
            try:
                acknowledge(error)
            except Exception as mistake:  # noqa: BLE001 - raised below, when all are told
                errors = errors or []
                errors.append(mistake)
        if errors is not None:
            raise_first(errors)
