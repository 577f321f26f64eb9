"""Lengths that lie, and files that are larger than an index can say."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.records.old_messages import Old, message
from tests.records.raw_batches import changed
from tests.storage import logs

from ottla.common.errors import CorruptMessage
from ottla.storage.file_records import (
    BODIES_CHUNK,
    BatchPlace,
    bodies,
    find_end,
    find_offset,
    first_offset,
    headers,
    place_at,
    places,
)
from ottla.storage.files import OsFilesystem
from ottla.storage.offset_index import POSITION_MAX
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment, SegmentLimits

BATCH = bytes(logs.batch([b"value"] * 3))
PIECE = st.one_of(
    st.just(BATCH),
    st.just(message(0, Old(1))),
    st.just(message(1, Old(2), 1)),
    st.binary(max_size=90),
    st.builds(
        lambda data, length: data[:8] + length.to_bytes(4, "big", signed=True) + data[12:],
        st.sampled_from([BATCH, message(0, Old(1))]),
        st.integers(-5, 120) | st.integers(-(1 << 31), (1 << 31) - 1),
    ),
)


class Bytes:
    """A file that says when more is asked of it than it can have."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_at(self, position: int, size: int) -> bytes:
        assert 0 <= position <= len(self.data)
        assert 0 <= size <= max(BODIES_CHUNK, len(self.data))
        return self.data[position : position + size]

    def size(self) -> int:
        return len(self.data)


@given(st.lists(PIECE, max_size=6).map(b"".join), st.integers(0, 50))
def test_no_length_leads_beyond_the_file(data: bytes, offset: int) -> None:
    file, end = Bytes(data), len(data)
    whole: list[BatchPlace] = []
    is_corrupt = False
    try:
        whole.extend(places(file, 0, end))
    except CorruptMessage:
        is_corrupt = True
    for place in whole:
        assert place.end <= end
        assert place_at(file, place.position, end) == place
        first_offset(file, place)
    try:
        assert [position for position, _ in headers(file, 0, end)] == [p.position for p in whole]
        assert [(p, len(body)) for p, body in bodies(file, 0, end)] == [(p, p.size) for p in whole]
        assert not is_corrupt
    except CorruptMessage:
        assert is_corrupt
    try:
        found = find_offset(file, 0, end, offset)
    except CorruptMessage:
        assert is_corrupt
    else:
        assert found == next((each for each in whole if each.last_offset >= offset), None)
    try:
        last = find_end(file, 0, end)
    except CorruptMessage:
        assert is_corrupt
    else:
        assert is_corrupt or last == (whole[-1] if whole else None)


def test_behind_two_gibibytes_batches_are_found_without_entries(tmp_path: Path) -> None:
    """Nobody writes such a segment, but one may be found: a hole stands for its first batch."""
    limits = SegmentLimits((1 << 31) - 1, 1 << 40, 1 << 20, 10)
    segment = Segment(OsFilesystem(), str(tmp_path), 0, limits=limits, open_files=OpenFiles(2))
    huge = POSITION_MAX - 50
    with Path(segment.path).open("wb") as file:
        file.write(changed(BATCH, length=huge - 12)[:61])
        for number in range(1, 40):
            file.seek(huge + (number - 1) * len(BATCH))
            file.write(changed(BATCH, base_offset=3 * number))
    segment.found_on_disk()
    segment.sound_from = 0
    segment.rebuild_indexes()
    assert os.path.getsize(segment.offset_index.path) == 8  # noqa: PTH202 - paths are strings here
    assert segment.size > POSITION_MAX
    place = segment.locate(100)
    assert place == BatchPlace(huge + 32 * len(BATCH), len(BATCH), 99, 101)
    assert segment.cut(huge, segment.size) == (segment.size, 120)
