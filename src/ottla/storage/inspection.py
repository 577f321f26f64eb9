"""Telling the batches of a segment that are as they were written from those that are not.

The checksum of a batch covers all of it but base offset, length and leader epoch, which the leader
writes. These have other witnesses: the batch before it ends below its first offset, the one behind
it begins above its last; the segment and its index say which offsets are possible; the epoch must
be the one that the history of epochs names. A batch is sound when nothing contradicts it. A message
of magic 0 or 1 that wraps others bears the offset of the last: it is unpacked to find the first.

Where a batch is not sound, those behind it are looked for: where it claims to end, where it would
end if one bit of its length were another, where those that follow it claim to end, and where the
offset index says that batches begin. What lies in between is a :class:`Damage`. Bytes are never
searched for something that looks like a batch: a record may hold just that.

Not to be found this way is a base offset that was changed within the gap that compaction left
before and behind a batch.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from ottla.common.checksum import crc32c
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    has_length,
    read_header,
)
from ottla.records.compression import DECOMPRESSED_MAX
from ottla.storage.file_records import BatchPlace, find_offset, first_offset, offsets_of
from ottla.storage.files import File
from ottla.storage.leader_epochs import OFFSET_MAX
from ottla.storage.offset_index import OffsetIndex

WINDOW: Final = 1 << 18
"""Bytes that are read at a time."""
OFFSETS_MAX: Final = 1 << 31
"""Of one segment: its indexes hold offsets relative to its own in 32 bits."""
ENTRIES_TRIED_MAX: Final = 1024
"""Entries of the index at which a sound batch is looked for behind a damaged one."""
FOLLOWED_MAX: Final = 1024
"""Damaged batches in a row whose lengths are followed."""

_PLAIN: Final = Struct(">qiibI2xi")
"""Base offset, length, leader epoch, magic, checksum and last offset delta of a batch."""
_LEGACY_CRC_FROM: Final = 16
_LENGTH_BITS: Final = 32


class Inspected(Protocol):
    """A segment, as far as it takes to inspect it."""

    base_offset: int
    size: int
    offset_index: OffsetIndex

    @property
    def file(self) -> File: ...

    def is_known_sound(self, position: int, end: int) -> bool: ...


class SoundBatch(NamedTuple):
    place: BatchPlace
    header: BatchHeader


class Damage(NamedTuple):
    """Bytes that are not as they were written, and the least offset that they may have held."""

    position: int
    end: int
    first_offset: int


def any_epoch(_offset: int, _epoch: int) -> bool:
    """Of a log whose history of epochs is not known."""
    return True


class Inspection:
    """Walks over one segment; ``upper_offset`` is where the next one, or nothing, begins."""

    __slots__ = (
        "_file",
        "_has_epoch",
        "_segment",
        "_size",
        "_start",
        "_unpacked_max",
        "_upper_offset",
        "_window",
    )

    def __init__(
        self,
        segment: Inspected,
        *,
        upper_offset: int = OFFSET_MAX,
        has_epoch: Callable[[int, int], bool] = any_epoch,
        unpacked_max: int = DECOMPRESSED_MAX,
    ) -> None:
        self._segment = segment
        self._file = segment.file
        self._size = segment.size
        self._upper_offset = min(upper_offset, segment.base_offset + OFFSETS_MAX)
        self._has_epoch = has_epoch
        self._unpacked_max = unpacked_max
        self._window = b""
        self._start = 0

    def run(
        self,
        position: int,
        expected: int,
        limit: int,
        epoch_range: Callable[[int], tuple[int, int]],
    ) -> tuple[int, int]:
        """How far the batches from ``position`` on are sound, and the offset behind them.

        The same as :meth:`walk` up to ``limit``, in a tight loop: readers wait for it. It ends
        early before everything that is not plain: a gap, an old format, a very large batch, damage.
        """
        unpack, window, start = _PLAIN.unpack_from, memoryview(self._window), self._start
        if not start <= position <= start + len(window):
            window, start = memoryview(b""), position
        known_epoch, epoch_end = -1, -1
        while position < limit:
            at = position - start
            if len(window) - at < HEADER_SIZE:
                window, start, at = self._piece(position, WINDOW), position, 0
                if len(window) < HEADER_SIZE:
                    break
            base_offset, length, epoch, magic, crc, delta = unpack(window, at)
            end = at + LOG_OVERHEAD + length
            if end > len(window) and at:
                window, start = self._piece(position, WINDOW), position
                end, at = end - at, 0
            if base_offset >= epoch_end:
                known_epoch, epoch_end = epoch_range(base_offset)
            if (
                magic != MAGIC
                or base_offset != expected
                or delta < 0
                or known_epoch not in (-1, epoch)
                or not at + HEADER_SIZE <= end <= len(window)
                or start + end > self._size
                or crc32c(window[at + ATTRIBUTES_POSITION : end]) != crc
            ):
                break
            position = start + end
            expected = base_offset + delta + 1
        return position, expected

    def walk(self, position: int, expected: int) -> Iterator[SoundBatch | Damage]:
        """What there is from ``position`` on, where all before lies below offset ``expected``."""
        while position < self._size:
            batch = self.sound_at(position, expected)
            if batch is None:
                damage = Damage(position, self._next_sound(position, expected), expected)
                yield damage
                position = damage.end
            else:
                yield batch
                position = batch.place.end
                expected = batch.place.last_offset + 1

    def begin_of(self, offset: int, position: int, expected: int) -> tuple[int, int] | None:
        """Where the first batch begins that may have offsets from ``offset`` on, and its first.

        Damaged ones may have all offsets up to those of the next sound one.
        """
        if self._segment.is_known_sound(position, self._size):
            known = find_offset(self._file, position, self._size, offset)
            if known is None:
                return None
            return known.position, first_offset(self._file, known, self._unpacked_max)
        damage: Damage | None = None
        for found in self.walk(position, expected):
            if isinstance(found, Damage):
                damage = found
                continue
            place = found.place
            if place.last_offset >= offset:
                if damage is not None and place.base_offset > offset:
                    break
                return place.position, place.base_offset
            damage = None
        return None if damage is None else (damage.position, damage.first_offset)

    def sound_at(self, position: int, expected: int) -> SoundBatch | None:
        """The batch at ``position``, if it is sound and has no offset below ``expected``."""
        header = read_header(self._read(position, HEADER_SIZE))
        size = header.size
        if not has_length(header.length, header.magic) or size > self._size - position:
            return None
        if header.last_offset < header.base_offset or header.base_offset < expected:
            return None
        epoch = header.partition_leader_epoch
        if epoch >= 0 and not self._has_epoch(header.base_offset, epoch):
            return None
        if not self._segment.is_known_sound(position, position + size) and not self._crc_holds(
            position, header
        ):
            return None
        first, last = self._offsets(position, header)
        if last != header.last_offset or first < expected:
            return None
        if first > expected and (
            last >= self._upper_offset or self._is_contradicted(position + size, expected, last)
        ):
            return None
        return SoundBatch(BatchPlace(position, size, first, last), header)

    def _offsets(self, position: int, header: BatchHeader) -> tuple[int, int]:
        """See :func:`offsets_of`."""
        batch = self._piece(position, header.size) if header.wraps else b""
        return offsets_of(batch, header, self._unpacked_max)

    def _is_contradicted(self, position: int, expected: int, last_offset: int) -> bool:
        """Whether a batch at ``position`` claims offsets from ``expected`` to ``last_offset``.

        Where none can begin is no witness, and one that goes back further is wrong itself.
        """
        header = read_header(self._read(position, HEADER_SIZE))
        if not has_length(header.length, header.magic) or header.size > self._size - position:
            return False
        return expected <= self._offsets(position, header)[0] <= last_offset

    def _crc_holds(self, position: int, header: BatchHeader) -> bool:
        end = position + header.size
        if header.magic < MAGIC:
            return self._checksum(position + _LEGACY_CRC_FROM, end, crc32) == header.crc
        return self._checksum(position + ATTRIBUTES_POSITION, end, crc32c) == header.crc

    def _checksum(self, position: int, end: int, crc: Callable[[memoryview, int], int]) -> int:
        value = 0
        while position < end:
            piece = self._piece(position, min(end - position, WINDOW))
            if not piece:
                return -1
            value = crc(piece, value)
            position += len(piece)
        return value

    def _piece(self, position: int, size: int) -> memoryview:
        """At most ``size`` bytes, fewer at the end of the file; from memory if they are there."""
        start, window = self._start, self._window
        if not start <= position <= position + size <= start + len(window):
            window = self._window = self._file.read_at(position, max(size, WINDOW))
            start = self._start = position
        return memoryview(window)[position - start : position - start + size]

    def _read(self, position: int, size: int) -> bytes:
        """Like :meth:`_piece`, with zeros for what the file does not have."""
        return bytes(self._piece(position, size)).ljust(size, b"\0")

    # Behind damage

    def _next_sound(self, position: int, expected: int) -> int:
        """Where the first sound batch behind the damaged one at ``position`` begins."""
        for candidate in self._ends(position):
            if candidate < self._size and self.sound_at(candidate, expected) is not None:
                return candidate
        return min(self._next_followed(position, expected), self._next_indexed(position, expected))

    def _next_followed(self, position: int, expected: int) -> int:
        """The same by lengths: several damaged ones may stand side by side."""
        below = expected
        for _ in range(FOLLOWED_MAX):
            header = read_header(self._read(position, HEADER_SIZE))
            rises = below <= header.base_offset <= header.last_offset < self._upper_offset
            if not rises or not has_length(header.length, header.magic):
                break
            position, below = position + header.size, header.last_offset + 1
            if position >= self._size:
                break
            if self.sound_at(position, expected) is not None:
                return position
        return self._size

    def _next_indexed(self, position: int, expected: int) -> int:
        for last_offset, start in self._segment.offset_index.behind(position, ENTRIES_TRIED_MAX):
            if position < start < self._size:
                batch = self.sound_at(start, expected)
                if batch is not None and batch.place.last_offset == last_offset:
                    return start
        return self._size

    def _ends(self, position: int) -> Iterator[int]:
        """Where the batch at ``position`` may end: as it says, or with another bit."""
        (length,) = Struct(">8xI").unpack(self._read(position, LOG_OVERHEAD))
        yield from (
            position + LOG_OVERHEAD + other
            for other in (length, *(length ^ (1 << bit) for bit in range(_LENGTH_BITS)))
            if LEGACY_LENGTH_MIN <= other < self._size
        )
