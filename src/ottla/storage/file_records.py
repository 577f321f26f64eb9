"""Record batches in a file, followed by their headers.

Only what is asked for is read: headers in chunks, so that small batches cost no call each and large
ones are skipped over. Lengths are compared with the end of the file before they are followed.
"""

import contextlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    has_length,
    read_header,
)
from ottla.records.compression import ACCEPTED_MAX
from ottla.records.record import iterate
from ottla.storage.files import Readable

HEADERS_CHUNK: Final = 4096
BODIES_CHUNK: Final = 1 << 20

_PLACE: Final = Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta of a batch."""
_LENGTH: Final = Struct(">8xi")
_BATCH_MIN: Final = LOG_OVERHEAD + LEGACY_LENGTH_MIN


class SearchedTooLong(Exception):
    """An index that is right leads nearer to what was looked for."""


class BatchPlace(NamedTuple):
    """Where a batch lies, and which offsets it has."""

    position: int
    size: int
    base_offset: int
    last_offset: int

    @property
    def end(self) -> int:
        return self.position + self.size


def _walk(
    file: Readable, position: int, end: int, chunk_size: int, whole: bool
) -> Iterator[tuple[bytes, int, BatchPlace]]:
    """A chunk of the file, where in it a batch begins, and the batch; all of it if ``whole``."""
    chunk, start = b"", position
    while end - position >= _BATCH_MIN:
        at = position - start
        if len(chunk) - at < HEADER_SIZE:
            chunk, start, at = file.read_at(position, chunk_size), position, 0
            chunk = chunk.ljust(HEADER_SIZE, b"\0")
        base_offset, length, magic, delta = _PLACE.unpack_from(chunk, at)
        size = LOG_OVERHEAD + length
        if not has_length(length, magic):
            raise CorruptMessage(f"no record batch begins at position {position}")
        if size > end - position:
            return
        if whole and len(chunk) - at < size:
            chunk, start, at = file.read_at(position, max(size, chunk_size)), position, 0
            if len(chunk) < size:
                return
        # Before magic 2 a batch bore the offset of its last record.
        last_offset = base_offset + delta if magic == MAGIC else base_offset
        yield chunk, at, BatchPlace(position, size, base_offset, last_offset)
        position += size


def places(file: Readable, position: int, end: int) -> Iterator[BatchPlace]:
    """The batches from ``position``, where one must begin, to ``end``; a cut one is left out.

    CorruptMessage where a header is none; nothing is checked beyond that.
    """
    for _, _, place in _walk(file, position, end, HEADERS_CHUNK, whole=False):
        yield place


def place_at(file: Readable, position: int, end: int) -> BatchPlace | None:
    """The batch that begins at ``position``; None when none can."""
    header = file.read_at(position, _PLACE.size)
    if len(header) < _PLACE.size:
        header = header.ljust(_PLACE.size, b"\0")
    return _place(header, 0, position, end)


def _place(chunk: bytes, at: int, position: int, end: int) -> BatchPlace | None:
    base_offset, length, magic, delta = _PLACE.unpack_from(chunk, at)
    size = LOG_OVERHEAD + length
    if not has_length(length, magic) or size > end - position:
        return None
    # Before magic 2 a batch bore the offset of its last record.
    return BatchPlace(position, size, base_offset, base_offset + (delta if magic == MAGIC else 0))


def find_offset(
    file: Readable, position: int, end: int, offset: int, search_max: int | None = None
) -> BatchPlace | None:
    """The first batch from ``position`` on whose last offset is not below ``offset``.

    The same as following :func:`places`, in a tight loop: fetches wait for it. SearchedTooLong when
    more than ``search_max`` bytes behind the first batch were searched.
    """
    unpack = _PLACE.unpack_from
    given_up = None
    while end - position >= _BATCH_MIN:
        if given_up is not None and position > given_up:
            raise SearchedTooLong
        chunk = file.read_at(position, HEADERS_CHUNK).ljust(HEADER_SIZE, b"\0")
        at, last_at = 0, len(chunk) - _PLACE.size
        while at <= last_at:
            base_offset, length, magic, delta = unpack(chunk, at)
            size = LOG_OVERHEAD + length
            if (length < LENGTH_MIN or magic != MAGIC) and not has_length(length, magic):
                raise CorruptMessage(f"no record batch begins at position {position + at}")
            if position + at + size > end:
                return None
            last_offset = base_offset + delta if magic == MAGIC else base_offset
            if last_offset >= offset:
                return BatchPlace(position + at, size, base_offset, last_offset)
            at += size
            if end - position - at < _BATCH_MIN:
                return None
        position += at
        if search_max is not None and given_up is None:
            given_up = position + search_max
    return None


def find_end(file: Readable, position: int, limit: int) -> BatchPlace | None:
    """The last of the whole batches between ``position`` and ``limit``; a tight loop as well."""
    unpack = _LENGTH.unpack_from
    last: BatchPlace | None = None
    while limit - position >= _BATCH_MIN:
        chunk = file.read_at(position, HEADERS_CHUNK).ljust(HEADER_SIZE, b"\0")
        room = limit - position
        at, last_at, found = 0, min(len(chunk) - _PLACE.size, room - _BATCH_MIN), -1
        while at <= last_at:
            size = LOG_OVERHEAD + unpack(chunk, at)[0]
            if size < _BATCH_MIN:
                raise CorruptMessage(f"no record batch begins at position {position + at}")
            if at + size > room:
                break
            found = at
            at += size
        if found >= 0:
            last = _place(chunk, found, position + found, limit)
        if at <= last_at:
            return last
        position += at
    return last


def headers(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like :func:`places`: the position and the header of each batch."""
    for chunk, at, place in _walk(file, position, end, HEADERS_CHUNK, whole=False):
        yield place.position, read_header(chunk, at)


def bodies(file: Readable, position: int, end: int) -> Iterator[tuple[BatchPlace, bytes]]:
    """Like :func:`places`: each batch with its bytes."""
    for chunk, at, place in _walk(file, position, end, BODIES_CHUNK, whole=True):
        yield place, chunk[at : at + place.size]


def first_offset(file: Readable, place: BatchPlace) -> int:
    """Of its records: a message of magic 0 or 1 that wraps others bears the offset of the last."""
    batch = file.read_at(place.position, HEADER_SIZE)
    header = read_header(batch.ljust(HEADER_SIZE, b"\0"))
    if header.magic < MAGIC and header.codec:
        with contextlib.suppress(CorruptMessage):
            batch = file.read_at(place.position, place.size)
            return iterate(batch, limit=ACCEPTED_MAX, check_crc=False)[0].offset
    return place.base_offset
