"""The batches bear witness of what a time index says.

Its last entry tells how new a segment is, and retention deletes by that; the others tell where a
search by time may begin. Neither is believed before a batch agrees.
"""

from typing import TYPE_CHECKING

from ottla.common.errors import CorruptMessage
from ottla.records.batch import NO_TIMESTAMP
from ottla.storage.file_records import headers
from ottla.storage.inspection import Damage, Inspection
from ottla.storage.sound_headers import headers_from

if TYPE_CHECKING:
    from ottla.storage.segment import Segment


def entry_holds(segment: "Segment", entry: tuple[int, int]) -> bool:
    """Whether the batch that has the entry's offset has its timestamp.

    Kafka up to 3.6 noted the offset of the record, later ones the last of its batch.
    """
    timestamp, offset = entry
    place = segment.find(offset)
    if place is None:
        return False
    _, header = next(headers(segment.file, place.position, segment.size))
    if header.max_timestamp != timestamp:
        return False
    return offset >= place.base_offset or header.wraps


def tells_newest(segment: "Segment", entry: tuple[int, int] | None) -> bool:
    """Whether an index with that last entry, or none, tells how new the segment is."""
    if entry is None:
        return _is_timeless(segment)
    return entry_holds(segment, entry) and _is_newest(segment, entry[0])


def _is_newest(segment: "Segment", timestamp: int) -> bool:
    """Whether no batch behind the last entry of the offset index is newer than ``timestamp``.

    An index that was cut has lost the entries of the newest batches; how new one is that is damaged
    nobody knows.
    """
    entry = segment.offset_index.last_entry()
    start = (0, segment.base_offset) if entry is None else segment.near(entry[0])
    search_max, searched_from = segment.search_max, segment.size
    for found in Inspection(segment).walk(*start):
        if isinstance(found, Damage) or found.header.max_timestamp > timestamp:
            return False
        searched_from = min(searched_from, found.place.end)
        if search_max is not None and found.place.position > searched_from + search_max:
            return False
    return True


def _is_timeless(segment: "Segment") -> bool:
    """Whether an empty time index is right: the first batch and the last ones have no time."""
    try:
        _, first = next(headers(segment.file, 0, segment.size))
    except (CorruptMessage, StopIteration):
        return False
    return first.max_timestamp < 0 and _is_newest(segment, NO_TIMESTAMP)


def newest(segment: "Segment", entry: tuple[int, int] | None) -> tuple[int, int]:
    """The largest timestamp and its offset: those of the last entry, or of what stands behind."""
    timestamp, offset = (NO_TIMESTAMP, segment.base_offset) if entry is None else entry
    for _, header in headers_from(segment, offset):
        if header.max_timestamp > timestamp:
            timestamp, offset = header.max_timestamp, header.last_offset
    return timestamp, offset
