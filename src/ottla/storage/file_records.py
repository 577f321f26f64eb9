"""Record batches in a file, followed by their headers.

Only what is asked for is read: headers in chunks, so that small batches cost no call each and large
ones are skipped over. Lengths are compared with the end of the file before they are followed.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    has_length,
    read_header,
)
from ottla.records.compression import DECOMPRESSED_MAX
from ottla.records.legacy import wrapped_offsets
from ottla.storage.files import Readable

HEADERS_CHUNK: Final = 4096
BODIES_CHUNK: Final = 1 << 20

_PLACE: Final = Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta of a batch."""
_LENGTH: Final = Struct(">8xi")
_LEGACY_ATTRIBUTES: Final = 17
_BATCH_MIN: Final = LOG_OVERHEAD + LEGACY_LENGTH_MIN


class SearchedTooLong(Exception):
    """An index that is right leads nearer to what was looked for."""


class BatchPlace(NamedTuple):
    """Where a batch lies, and which offsets it has."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    wraps: bool = False
    """See ``BatchHeader.wraps``: its first offset is not known; :func:`first_offset` finds it."""

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
        if magic == MAGIC:
            place = BatchPlace(position, size, base_offset, base_offset + delta)
        else:
            place = _legacy_place(chunk, at, position, size, base_offset)
        yield chunk, at, place
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
    if magic == MAGIC:
        return BatchPlace(position, size, base_offset, base_offset + delta)
    return _legacy_place(chunk, at, position, size, base_offset)


def _legacy_place(chunk: bytes, at: int, position: int, size: int, offset: int) -> BatchPlace:
    """Before magic 2 a batch bore the offset of its last record."""
    wraps = chunk[at + _LEGACY_ATTRIBUTES] & CODEC_MASK != 0
    return BatchPlace(position, size, offset, offset, wraps)


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
                return _place(chunk, at, position + at, end)
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


def first_offset(file: Readable, place: BatchPlace, limit: int = DECOMPRESSED_MAX) -> int:
    """Of the records of a batch; what its header says if it unpacks to more than ``limit``."""
    if not place.wraps:
        return place.base_offset
    batch = file.read_at(place.position, place.size)
    return offsets_of(batch, read_header(batch), limit)[0]


def offsets_of(
    batch: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_MAX
) -> tuple[int, int]:
    """The first and the last offset of the records of a batch, as its own bytes tell them.

    Those of the header, if it cannot be unpacked. A batch is as it was written only if the last one
    is that of its header.
    """
    if header.wraps:
        try:
            return wrapped_offsets(bytes(batch), limit)
        except CorruptMessage:
            pass
    return header.base_offset, header.last_offset
