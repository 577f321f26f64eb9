"""What a broker asks of the remote part of its logs.

``Log`` itself knows only that a part of it may lie elsewhere: below ``local_log_start_offset``.
"""

from typing import NamedTuple, Protocol

from ottla.common.promise import Promise
from ottla.storage.log import Log
from ottla.storage.time_search import TimestampAndOffset


class RemoteData(NamedTuple):
    """Whole batches, from the one that has the offset asked for on."""

    records: bytes
    next_offset: int
    """The offset behind the last of them."""
    aborted: list[tuple[int, int]]
    """Producer id and first offset of aborted transactions among them, for read_committed."""


class RemoteLogs(Protocol):
    """The remote parts of all logs of a broker. Promises fail with an ApiError."""

    def read(
        self,
        log: Log,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int,
        read_committed: bool,
    ) -> Promise[RemoteData]:
        """OffsetOutOfRange when no valid remote segment has ``offset``."""
        ...

    def offset_for_timestamp(
        self, log: Log, timestamp: int, start_offset: int
    ) -> Promise[TimestampAndOffset | None]:
        """The first remote record from ``start_offset`` on that is not older than that."""
        ...
