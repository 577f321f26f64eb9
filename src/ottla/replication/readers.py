"""Readers that wait at a partition for records, by how much of its log they may see.

Followers see it to its end, consumers to the high watermark, and those that read only what is
committed to the last stable offset. Each is told how many bytes came into its sight: an open
transaction is not yet there for the last ones, and all of it comes with its marker.
"""

from typing import Final

from ottla.common.errors import ApiError
from ottla.replication.waiting import WaitingAt
from ottla.storage.log import Log

_ALL_OF_IT: Final = 0x7FFFFFFF


class Readers:
    __slots__ = ("_committed", "_told", "consumers", "followers")

    def __init__(self) -> None:
        self.consumers: WaitingAt = {}
        self.followers: WaitingAt = {}
        self._committed: WaitingAt = {}
        self._told = 0
        """The last stable offset that those in ``_committed`` know of."""

    def committed(self, log: Log) -> WaitingAt:
        """Where to wait for the last stable offset."""
        if not self._committed:
            self._told = log.last_stable_offset
        return self._committed

    def appended(self, size: int) -> None:
        """Records came to the end of the log."""
        for request in self.followers:
            request.came(size)

    def seen_at_once(self, log: Log, size: int) -> None:
        """Records came, and the high watermark went over them."""
        for request in self.consumers:
            request.came(size)
        if self._committed:
            self._tell_of_stable(log)

    def high_watermark_moved(self, log: Log, before: int) -> None:
        if self.consumers:
            _tell(self.consumers, log, before, log.high_watermark)
        if self._committed:
            self._tell_of_stable(log)

    def _tell_of_stable(self, log: Log) -> None:
        stable = log.last_stable_offset
        if stable > self._told:
            before, self._told = self._told, stable
            _tell(self._committed, log, before, stable)

    def answer_all(self) -> None:
        """What they wait for is not to be had here."""
        for request in (*self.consumers, *self.followers, *self._committed):
            request.came(request.missing)


def _tell(waiting: WaitingAt, log: Log, before: int, reached: int) -> None:
    """They saw the log to ``before``; how large that is which they see now matters to few."""
    came = 1
    if any(request.missing > 1 for request in waiting):
        try:
            fetched = log.read(
                max(before, log.log_start_offset),
                _ALL_OF_IT,
                upper_bound_offset=reached,
                at_least_one=True,
            )
            came = 1 if fetched.region is None else fetched.region.size
        except ApiError:
            came = _ALL_OF_IT  # each reads for itself, and is told what is wrong
    for request in waiting:
        request.came(came)
