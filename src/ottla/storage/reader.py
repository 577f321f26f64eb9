"""Where in its segments the records of a log are.

A read answers with a region of a file: no record enters memory. A reader that goes on where a read
ended is found by a small map from offset to position, others by the offset index.
"""

from typing import Final

from ottla.common.errors import OffsetMovedToTieredStorage
from ottla.storage.file_records import first_offset, place_at
from ottla.storage.files import FileRegion
from ottla.storage.index_rebuild import IndexRebuild
from ottla.storage.results import FetchedData
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.time_search import TimeSearch, TimestampAndOffset
from ottla.storage.transaction_witnesses import check_transaction_index
from ottla.storage.verification import Verifier

PLACES_MAX: Final = 32
"""Readers of a log whose places are remembered."""


class Reader:
    """See the module. An OSError is the caller's."""

    __slots__ = ("_places", "_segments", "_verifier")

    def __init__(self, segments: Segments, verifier: Verifier) -> None:
        self._segments = segments
        self._verifier = verifier
        self._places: dict[int, tuple[Segment, int]] = {}
        """Where a reader of that offset finds it."""

    def forget_places(self) -> None:
        """Segments have gone, or end elsewhere."""
        self._places.clear()

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int, end_offset: int, force: bool
    ) -> FetchedData:
        """Whole batches from the one that has ``offset`` on, none at or above the upper bound.

        At most ``max_bytes``, or one batch if the first is larger and by ``force``. The log ends at
        ``end_offset``.
        """
        places = self._places
        active = self._segments.active
        place = places.get(offset)
        if place is None or (place[1] >= place[0].size and place[0] is not active):
            place = self._find(offset)
            if place is None:
                return FetchedData(None, offset, offset)
        segment, position = place
        if position < segment.sound_from:
            expected = offset if offset in places else segment.base_offset
            end, next_offset = self._verifier.sound_end(
                segment, position, expected, max_bytes, upper_bound_offset
            )
        elif segment is active and upper_bound_offset >= end_offset:
            end, next_offset = segment.size, end_offset
        else:
            end, next_offset = self._end_below(segment, position, upper_bound_offset)
        if end - position > max_bytes:
            end, next_offset = self._cut(segment, position, end, max_bytes, force)
        if end <= position:
            return FetchedData(None, offset, offset)
        region = FileRegion(segment.file, position, end - position)
        places[next_offset] = (segment, end)
        if len(places) > PLACES_MAX:
            del places[next(iter(places))]
        return FetchedData(region, offset, next_offset)

    def _find(self, offset: int) -> tuple[Segment, int] | None:
        """The first batch that ends at or behind ``offset``."""
        if offset < self._segments[0].base_offset:
            raise OffsetMovedToTieredStorage(
                f"offset {offset} is below {self._segments[0].base_offset}, the first one here"
            )
        for segment in self._segments.touching(offset):
            if segment.sound_from:
                place = self._verifier.locate(segment, offset)
            else:
                place = segment.find(offset)
            if place is not None:
                return segment, place.position
        return None

    def _end_below(
        self, segment: Segment, position: int, upper_bound_offset: int
    ) -> tuple[int, int]:
        """Where the batches below ``upper_bound_offset`` end, and the offset behind them."""
        following = self._segments.higher(segment.base_offset)
        if following is not None and following.base_offset <= upper_bound_offset:
            return segment.size, following.base_offset
        known = self._places.get(upper_bound_offset)
        if known is not None and known[0] is segment:
            return known[1], upper_bound_offset
        place = segment.find(upper_bound_offset, position)
        if place is None:
            return segment.size, upper_bound_offset
        return place.position, min(first_offset(segment.file, place), upper_bound_offset)

    def _cut(
        self, segment: Segment, position: int, end: int, max_bytes: int, force: bool
    ) -> tuple[int, int]:
        found = segment.cut(position, position + max_bytes)
        if found is not None:
            return found
        first = place_at(segment.file, position, end) if force else None
        return (position, -1) if first is None else (first.end, first.last_offset + 1)

    # Transactions

    def aborted_transactions(
        self, offset: int, upper_bound_offset: int, is_compacted: bool
    ) -> list[tuple[int, int]]:
        """Producer id and first offset of those that have records between the offsets."""
        found: list[tuple[int, int]] = []
        for segment in self._segments.touching(offset):
            index = segment.transaction_index
            if not index.is_trusted:
                if self._verifier.is_on and not is_compacted:
                    check_transaction_index(segment, self._segments)
                index.is_trusted = True
            for entry in index.entries:
                if entry.last_offset >= offset and entry.first_offset < upper_bound_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= upper_bound_offset:
                    return found
        return found

    # Times

    def next_time_search(self, timestamp: int, start_offset: int) -> TimeSearch | None:
        """The first segment that may have a record from an offset on, not before a time."""
        for segment in self._segments.touching(start_offset):
            if segment.may_have(timestamp):
                following = self._segments.higher(segment.base_offset)
                next_offset = None if following is None else following.base_offset
                return segment.prepare_time_search(timestamp, start_offset, next_offset)
        return None

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all."""
        segments = [segment for segment in self._segments if segment.size]
        if not segments:
            return None
        return max(segments, key=Segment.largest_timestamp).find_max_timestamp()

    # Indexes that mislead

    def prepare_rebuild(self, segment: Segment, truncations: int) -> IndexRebuild | None:
        """The indexes of a closed segment, to be made anew elsewhere; None if it has gone."""
        if segment.is_dense or not self._segments.is_closed(segment):
            return None
        return segment.prepare_rebuild(truncations)

    def rebuilt(self, segment: Segment, rebuild: IndexRebuild, truncations: int) -> None:
        """They were; if they are not those of the batches now, a reader asks again."""
        if (
            self._segments.is_closed(segment)
            and segment.size == rebuild.segment.size
            and truncations == rebuild.truncations
        ):
            segment.take_indexes(rebuild)
        else:
            rebuild.discard()
