"""Offset and time index of a segment, made anew from the headers of its batches."""

from typing import Final

from ottla.records.batch import NO_TIMESTAMP
from ottla.storage import offset_index, time_index
from ottla.storage.file_records import headers
from ottla.storage.files import Readable

INTERVAL_BYTES: Final = 4096
"""How dense the offset index gets: Kafka's default."""


def rebuild_indexes(file: Readable, size: int, base_offset: int) -> tuple[bytes, bytes]:
    """What ``.index`` and ``.timeindex`` of the ``size`` bytes of batches in ``file`` are to be."""
    offsets, times = bytearray(), bytearray()
    largest, offset_of_largest = NO_TIMESTAMP, base_offset
    indexed = NO_TIMESTAMP
    since = 0
    for position, header in headers(file, 0, size):
        if header.max_timestamp > largest:
            largest, offset_of_largest = header.max_timestamp, header.last_offset
        if since > INTERVAL_BYTES:
            offsets += offset_index.ENTRY.pack(header.last_offset - base_offset, position)
            if largest > indexed:
                times += time_index.ENTRY.pack(largest, offset_of_largest - base_offset)
                indexed = largest
            since = 0
        since += header.size
    if largest > indexed:
        times += time_index.ENTRY.pack(largest, offset_of_largest - base_offset)
    return bytes(offsets), bytes(times)
