"""Logs as old clusters left them: batches of three formats in one log, with Kafka's indexes."""

import struct
from typing import NamedTuple

from hypothesis import strategies as st
from tests.records.old_messages import Old, message, wrapper
from tests.storage import logs

from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.testing.files import MemoryFilesystem

EPOCH = 3
MODIFIED_MS = 500
"""How long after the first records their files were written last."""
INTERVAL = 256
"""As ``logs.settings`` has it."""


class Piece(NamedTuple):
    """One batch of a log, and what is in it."""

    data: bytes
    records: list[Record]
    is_bare: bool = False
    """A message of magic 0 or 1 that stands alone."""

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset

    @property
    def max_timestamp(self) -> int:
        return max(record.timestamp for record in self.records)


class Shape(NamedTuple):
    """What is drawn of a batch."""

    magic: int
    codec: int
    values: list[tuple[bytes, bytes | None, int]]
    """Key, value and timestamp of each record."""
    append_time: int | None


TIMES = st.integers(logs.NOW, logs.NOW + 50)
VALUES = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]), st.none() | st.binary(max_size=120), st.just(-1) | TIMES
)
SHAPES = st.builds(
    Shape,
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.lists(VALUES, min_size=1, max_size=4),
    st.none() | TIMES,
)
LOGS = st.lists(SHAPES, min_size=1, max_size=14)


def pieces(shapes: list[Shape], offset: int = 0) -> list[Piece]:
    """The batches, one behind the other; an uncompressed message of old holds one record only."""
    found: list[Piece] = []
    for shape in shapes:
        values = shape.values if shape.codec or shape.magic == 2 else shape.values[:1]
        found.append(_piece(shape, values, offset))
        offset += len(values)
    return found


def _piece(shape: Shape, values: list[tuple[bytes, bytes | None, int]], offset: int) -> Piece:
    append_time = shape.append_time if shape.magic else None
    old = [
        Old(offset + number, time if shape.magic else -1, key, value)
        for number, (key, value, time) in enumerate(values)
    ]
    records = [
        Record(
            offset=each.offset,
            timestamp=each.timestamp if append_time is None else append_time,
            key=each.key,
            value=each.value,
        )
        for each in old
    ]
    if shape.magic == 2:
        data = build_batch(
            [Record(key=each.key, value=each.value, timestamp=each.timestamp) for each in old],
            base_offset=offset,
            codec=shape.codec,
            leader_epoch=EPOCH,
            timestamp_type=0 if append_time is None else 1,
            append_time=-1 if append_time is None else append_time,
        )
    elif shape.codec:
        data = wrapper(shape.magic, shape.codec, old, append_time=append_time)
    else:
        attributes = 0 if append_time is None else 8
        record = old[0] if append_time is None else old[0]._replace(timestamp=append_time)
        return Piece(message(shape.magic, record, attributes), records, is_bare=True)
    return Piece(data, records)


class Written(NamedTuple):
    base_offset: int
    pieces: list[Piece]

    @property
    def name(self) -> str:
        return f"{logs.DIRECTORY}/{self.base_offset:020d}"

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)

    @property
    def max_timestamp(self) -> int:
        return max(piece.max_timestamp for piece in self.pieces)

    def indexes(self, *, by_record: bool = False, ends: bool = True) -> tuple[bytes, bytes]:
        """What ``.index`` and ``.timeindex`` are, by Kafka's rules.

        ``by_record`` is what Kafka wrote up to 3.6: the offset of the record with the largest
        timestamp, and not the last one of its batch.
        """
        offsets, times, since, position = b"", b"", 0, 0
        largest, offset, indexed = -1, self.base_offset, -1
        for piece in self.pieces:
            if piece.max_timestamp > largest:
                largest, offset = piece.max_timestamp, piece.last_offset
                if by_record:
                    offset = next(r.offset for r in piece.records if r.timestamp == largest)
            if since > INTERVAL:
                offsets += struct.pack(">ii", piece.last_offset - self.base_offset, position)
                if largest > indexed:
                    times += struct.pack(">qi", largest, offset - self.base_offset)
                    indexed = largest
                since = 0
            since += len(piece.data)
            position += len(piece.data)
        if ends and largest > indexed:
            times += struct.pack(">qi", largest, offset - self.base_offset)
        return offsets, times


def write(
    files: MemoryFilesystem, found: list[Piece], per_segment: int, *, by_record: bool | None = None
) -> list[Written]:
    """Lay the batches down in segments; with indexes if ``by_record`` says of which kind."""
    files.make_directory(logs.DIRECTORY)
    segments = [
        Written(found[at].records[0].offset, found[at : at + per_segment])
        for at in range(0, len(found), per_segment)
    ]
    for segment in segments:
        files.write(f"{segment.name}.log", segment.data)
        files.open(f"{segment.name}.log").sync()
        files.set_modified_ms(f"{segment.name}.log", logs.NOW + MODIFIED_MS)
        if by_record is not None:
            offsets, times = segment.indexes(by_record=by_record)
            files.write(f"{segment.name}.index", offsets)
            files.write(f"{segment.name}.timeindex", times)
    files.sync_directory(logs.DIRECTORY)
    files.sync_directory(logs.ROOT)
    return segments


def all_records(found: list[Piece]) -> list[Record]:
    return [record for piece in found for record in piece.records]
