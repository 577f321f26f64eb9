"""What appends and reads of a log answer."""

from ottla.common.errors import ApiError
from ottla.storage.files import FileRegion


class AppendInfo:
    """What became of an append."""

    __slots__ = (
        "append_time",
        "first_offset",
        "is_duplicate",
        "is_flush_due",
        "last_offset",
        "log_start_offset",
        "record_count",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        append_time: int,
        log_start_offset: int,
        record_count: int,
        size: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.append_time = append_time
        """The time that all its records bear; -1 when they keep their own."""
        self.log_start_offset = log_start_offset
        self.record_count = record_count
        self.size = size
        self.is_duplicate = False
        """Whether a producer sent it again: nothing was written, the offsets are the old ones."""
        self.is_flush_due = False
        """Whether nobody may hear of it before it is on disk (``flush.messages``)."""


class FetchedData:
    """What a read found: whole batches in one region, or none."""

    __slots__ = ("first_offset", "next_offset", "region")

    def __init__(self, region: FileRegion | None, first_offset: int, next_offset: int) -> None:
        self.region = region
        self.first_offset = first_offset
        """Not above the offset that was asked for: a batch is never cut."""
        self.next_offset = next_offset
        """The region has no record from here on."""

    @property
    def size(self) -> int:
        return 0 if self.region is None else self.region.size


class UnexpectedAppendOffset(ApiError):
    """Batches of a leader that do not begin at or behind this log's end."""

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {first_offset} does not follow log end offset {log_end_offset}")
        self.first_offset = first_offset
        self.last_offset = last_offset
