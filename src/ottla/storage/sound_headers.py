"""The headers of the sound batches of a segment, where the records are not needed.

What is known to be as it was written is not looked at again: header leads to header, which takes a
third of the time.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.common.errors import CorruptMessage
from ottla.records.batch import BatchHeader
from ottla.storage.file_records import headers

if TYPE_CHECKING:
    from ottla.storage.segment import Segment


def headers_from(segment: "Segment", offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the sound batches from some batch before ``offset`` on."""
    if segment.size == 0:
        return
    position, expected = segment.anchor(offset)
    if position >= segment.sound_from:
        with suppress(CorruptMessage):
            for start, header in headers(segment.file, position, segment.size):
                yield start, header
                position, expected = start + header.size, header.last_offset + 1
    for place, header in segment.sound_batches(position, expected):
        yield place.position, header
