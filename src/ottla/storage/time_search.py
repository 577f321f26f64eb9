"""The search of one segment for a record by its time.

Between the entries of a time index may lie a whole segment: timestamps that do not grow have none.
So it is prepared on the loop, where the log lives, and may run elsewhere: it knows the open file
and how much of it counted then, and changes nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ottla.common.environment import Scheduler
from ottla.common.errors import CorruptMessage
from ottla.records.compression import ACCEPTED_MAX
from ottla.records.record import Record, iterate
from ottla.storage.directories import LogDirFailed
from ottla.storage.file_records import BatchPlace
from ottla.storage.files import File
from ottla.storage.inspection import Damage, Inspection, SoundBatch
from ottla.storage.offset_index import OffsetIndex


class TimestampAndOffset(NamedTuple):
    """A record by its time; the leader epoch is -1 where it is not known."""

    timestamp: int
    offset: int
    leader_epoch: int


class SegmentView:
    """A segment as it was at a moment; it stays readable when the segment is deleted."""

    __slots__ = ("_sound_from", "base_offset", "file", "offset_index", "path", "size")

    def __init__(
        self,
        path: str,
        base_offset: int,
        file: File,
        size: int,
        offset_index: OffsetIndex,
        sound_from: int,
    ) -> None:
        self._sound_from = sound_from
        self.path = path
        self.base_offset = base_offset
        self.file = file
        self.size = size
        self.offset_index = offset_index

    def is_known_sound(self, position: int, _end: int) -> bool:
        return position >= self._sound_from

    def undamaged(self, position: int, expected: int, offset: int) -> Iterator[SoundBatch]:
        """The batches from ``position`` on; CorruptMessage where one from ``offset`` is damaged."""
        damage: Damage | None = None
        for found in Inspection(self).walk(position, expected):
            if isinstance(found, Damage):
                damage = found
                continue
            if damage is not None and found.place.base_offset > offset:
                break
            damage = None
            yield found
        if damage is not None:
            raise CorruptMessage(f"{self.path} is damaged at position {damage.position}")

    def records(self, place: BatchPlace) -> list[Record]:
        return iterate(self.file.read_at(place.position, place.size), limit=ACCEPTED_MAX)


class TimeSearch(NamedTuple):
    """For the first record, from ``start_offset`` on, that is not older than ``timestamp``."""

    segment: SegmentView
    anchor: tuple[int, int]
    """A position, and the base offset of the batch there: nothing before it can be the answer."""
    from_offset: int
    timestamp: int
    start_offset: int
    next_offset: int | None
    """Where what is not searched begins; None if that is nothing."""

    def run(self) -> TimestampAndOffset | None:
        timestamp, start_offset, segment = self.timestamp, self.start_offset, self.segment
        for place, header in segment.undamaged(*self.anchor, self.from_offset):
            if header.max_timestamp >= timestamp and place.last_offset >= start_offset:
                for record in segment.records(place):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampAndOffset(
                            record.timestamp, record.offset, header.partition_leader_epoch
                        )
        return None


class Searched(Protocol):
    """What is asked of a log."""

    @property
    def directory(self) -> str: ...

    @property
    def truncations(self) -> int: ...

    def next_time_search(
        self, timestamp: int, before: TimeSearch | None = None
    ) -> TimeSearch | None: ...

    def refused(self, error: OSError) -> LogDirFailed: ...


async def find_by_time(
    log: Searched, timestamp: int, scheduler: Scheduler
) -> TimestampAndOffset | None:
    """The first record of ``log`` that is not older than ``timestamp``.

    Looked for elsewhere than on the loop: a segment may have to be read from end to end.
    """
    search = log.next_time_search(timestamp)
    while search is not None:
        truncations, found = log.truncations, None
        try:
            found = await scheduler.run_in_background(search.run, log.directory.rpartition("/")[0])
        except OSError as error:
            raise log.refused(error) from error
        except CorruptMessage:
            if log.truncations == truncations:
                raise
        if log.truncations != truncations:  # what was read may have been two logs' in part
            search = log.next_time_search(timestamp)
        elif found is not None:
            return found
        else:
            search = log.next_time_search(timestamp, search)
    return None
