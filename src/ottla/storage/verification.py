"""What is read from disk is looked at before it is served, once.

Bytes that this incarnation of the broker has written, or has read while it recovered a log, are
believed. All others are inspected when they are first read, a piece at a time so that no reader
holds up the rest; what was found sound is remembered, and a second reader pays nothing. ``always``
remembers nothing of closed segments; ``never`` looks at nothing, as Kafka does.

A read ends before a batch that is damaged; one that begins there is refused with CORRUPT_MESSAGE.
A reader that seeks past it finds what lies behind it.
"""

from enum import Enum
from typing import Final, Protocol

from ottla.common.errors import CorruptMessage
from ottla.storage.epoch_witnesses import is_witnessed, settle_epochs
from ottla.storage.file_records import BatchPlace, find_offset, first_offset
from ottla.storage.inspection import Damage, Inspection
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.listener import LogListener
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

PIECE_BYTES: Final = 1 << 20
"""What one read inspects at most, unless a single batch is larger."""
REPORTED_MAX: Final = 1000


class Verify(Enum):
    """``ottla.log.verify``."""

    ONCE = "once"
    ALWAYS = "always"
    NEVER = "never"


class VerifiedLog(Protocol):
    """What a log says of itself, for its batches to be compared with."""

    @property
    def segments(self) -> Segments: ...

    @property
    def epochs(self) -> LeaderEpochs: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


class Verifier:
    """Looks at what is read of one log."""

    __slots__ = ("_listener", "_log", "_mode", "_reported", "_witnessed", "are_epochs_settled")

    def __init__(self, log: VerifiedLog, listener: LogListener, mode: Verify) -> None:
        self._log = log
        self._listener = listener
        self._mode = mode
        self._reported: set[tuple[int, int]] = set()
        self._witnessed: set[EpochEntry] = set()
        self.are_epochs_settled = False
        """Whether the history of epochs was compared with all batches because one contradicts."""
        for segment in log.segments:
            if mode is Verify.NEVER:
                segment.sound_from = 0
            elif mode is Verify.ALWAYS:
                segment.sound_from = segment.size

    @property
    def is_on(self) -> bool:
        return self._mode is not Verify.NEVER

    def closed(self, segment: Segment) -> None:
        """Nothing is appended to ``segment`` any more."""
        if self._mode is Verify.ALWAYS:
            segment.sound_from = segment.size

    def locate(self, segment: Segment, offset: int) -> BatchPlace | None:
        """The first batch that ends at or behind ``offset``; CorruptMessage if it is damaged."""
        if segment.size == 0:
            return None
        damage: Damage | None = None
        search_max, searched_from = segment.search_max, segment.size
        for found in self._inspection(segment).walk(*segment.near(offset)):
            if isinstance(found, Damage):
                damage = found
                self._report(segment, found)
                continue
            place = found.place
            self._sound(segment, place)
            if place.last_offset >= offset:
                if damage is not None and place.base_offset > offset:
                    break
                return place
            damage = None
            searched_from = min(searched_from, place.end)
            if search_max is not None and place.end > searched_from + search_max:
                segment.doubt()
                return segment.locate(offset)
        if damage is not None:
            raise self._refusal(segment, damage.position, damage.first_offset)
        return None

    def sound_end(
        self, segment: Segment, position: int, expected: int, max_bytes: int, upper_offset: int
    ) -> tuple[int, int]:
        """Up to where the batches from ``position`` on are sound, and the offset behind them.

        Not beyond ``upper_offset``, and not much more than ``max_bytes``.
        """
        end, next_offset = position, expected
        known = segment.stretches.reaching(position)
        if known is not None:
            end, next_offset = known.end, known.next_offset
        limit = min(position + min(max_bytes, PIECE_BYTES), segment.sound_from)
        if end < limit or end == position:
            end, next_offset = self._inspect(segment, end, next_offset, limit)
        if end == position:
            raise self._refusal(segment, position, expected)
        if next_offset > upper_offset:
            place = find_offset(segment.file, position, end, upper_offset)
            if place is not None:
                return place.position, min(first_offset(segment.file, place), upper_offset)
        return end, next_offset

    def _inspect(
        self, segment: Segment, position: int, expected: int, limit: int
    ) -> tuple[int, int]:
        """Look at the batches from ``position`` to ``limit``, at least one, up to a damaged one."""
        inspection = self._inspection(segment)
        start = position
        while True:
            position, expected = inspection.run(
                position, expected, limit, self._log.epochs.range_at
            )
            if position >= limit and position > start:
                break
            found = next(inspection.walk(position, expected), None)
            if found is None or isinstance(found, Damage):
                if found is not None:
                    self._report(segment, found)
                break
            position, expected = found.place.end, found.place.last_offset + 1
        if position > start and self._mode is Verify.ONCE:
            segment.found_sound(start, position, expected)
        return position, expected

    def check_epoch_behind(self, epoch: int) -> None:
        """Whether the epoch that follows ``epoch`` began where the history says, as of the disk."""
        log = self._log
        if self.are_epochs_settled or not self.is_on:
            return
        entry = log.epochs.following(epoch)
        if entry is None or entry in self._witnessed:
            return
        if is_witnessed(entry, log.epochs, log.segments):
            self._witnessed.add(entry)
        else:
            self._settle_epochs()

    def _settle_epochs(self) -> None:
        log = self._log
        self.are_epochs_settled = True
        settle_epochs(log.epochs, log.segments, log.log_start_offset, log.log_end_offset)

    def _inspection(self, segment: Segment) -> Inspection:
        following = self._log.segments.higher(segment.base_offset)
        end = self._log.log_end_offset
        return Inspection(
            segment,
            upper_offset=end if following is None else following.base_offset,
            has_epoch=self._has_epoch,
        )

    def _has_epoch(self, offset: int, epoch: int) -> bool:
        """Whether what stands at ``offset`` can be of ``epoch``."""
        log = self._log
        known = log.epochs.epoch_for_offset(offset)
        if known not in (-1, epoch) and not self.are_epochs_settled:
            self._settle_epochs()
            known = log.epochs.epoch_for_offset(offset)
        return known in (-1, epoch)

    def _sound(self, segment: Segment, place: BatchPlace) -> None:
        if self._mode is Verify.ONCE:
            segment.found_sound(place.position, place.end, place.last_offset + 1)

    def _report(self, segment: Segment, damage: Damage) -> None:
        key = segment.base_offset, damage.position
        if key not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add(key)
            self._listener.damaged(segment.path, damage)

    def _refusal(self, segment: Segment, position: int, offset: int) -> CorruptMessage:
        return CorruptMessage(f"{segment.path} is damaged at position {position}, offset {offset}")
