"""Logs that hold batches of magic 0, 1 and 2, as clusters that have grown old do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.old_messages import APPEND_TIME, Old, message, wrapper
from tests.storage import cleaning, logs, old_logs
from tests.storage.old_logs import LOGS, Piece, Shape

from ottla.common.chance import Chance
from ottla.common.errors import CorruptMessage
from ottla.records.batch import MAGIC, batches, read_header
from ottla.records.compression import GZIP, LZ4, compress
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

CONFIG = logs.settings(internal_segment_bytes=1 << 20, retention_ms=1000)


def indexes(files: MemoryFilesystem, segment: old_logs.Written) -> tuple[bytes, bytes]:
    return files.read(f"{segment.name}.index"), files.read(f"{segment.name}.timeindex")


def bytes_of(log: Log) -> bytes:
    return b"".join(segment.file.read_at(0, segment.size) for segment in log.segments)


def first_not_older(found: list[Piece], timestamp: int) -> tuple[int, int] | None:
    for record in old_logs.all_records(found):
        if record.timestamp >= timestamp:
            return record.timestamp, record.offset
    return None


@given(LOGS, st.integers(1, 6))
def test_an_unclean_stop_costs_nothing_that_is_whole(shapes: list[Shape], size: int) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    segments = old_logs.write(files, found, size)
    log = logs.open_log(files, CONFIG, clean=False)
    assert logs.read_all(log) == old_logs.all_records(found)
    assert log.log_end_offset == found[-1].last_offset + 1
    log.close(logs.NOW)
    assert [indexes(files, each) for each in segments] == [each.indexes() for each in segments]


@given(LOGS, st.integers(1, 6), st.data())
def test_a_log_that_is_cut_keeps_its_whole_batches(
    shapes: list[Shape], size: int, data: st.DataObject
) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    last = old_logs.write(files, found, size)[-1]
    kept = data.draw(st.integers(0, len(last.data)))
    files.write(f"{last.name}.log", last.data[:kept])
    log = logs.open_log(files, CONFIG, clean=False)
    whole, end = found[: len(found) - len(last.pieces)], 0
    for piece in last.pieces:
        end += len(piece.data)
        if end <= kept:
            whole.append(piece)
    assert logs.read_all(log) == old_logs.all_records(whole)
    assert bytes_of(log) == b"".join(piece.data for piece in whole)


@pytest.mark.parametrize("clean", [True, False])
def test_a_read_tells_the_offset_behind_it(clean: bool) -> None:
    """Also where a wrapper, which bears the offset of its last record, stands behind it."""
    files, values = logs.filesystem(), [(b"a", Chance(at).bytes(100), logs.NOW) for at in range(3)]
    found = old_logs.pieces([Shape(at % 2, at % 3 and GZIP, list(values), None) for at in range(7)])
    (segment,) = old_logs.write(files, found, 7, by_record=False)
    assert len(segment.indexes()[0]) >= 3 * 8
    end = found[-1].last_offset + 1
    for upper in range(1, end + 1):
        for max_bytes in (1, *range(100, len(segment.data) + 100, 60)):
            log = logs.open_log(files, CONFIG, clean=clean, recovery_point=end if clean else 0)
            for offset in range(upper):
                fetched = log.read(offset, max_bytes, upper_bound_offset=upper, at_least_one=True)
                if fetched.region is None:
                    assert fetched.next_offset == offset
                else:
                    last = logs.records_of(fetched.region.read())[-1].offset
                    assert offset <= last < upper
                    assert fetched.next_offset == last + 1


@given(LOGS, st.integers(1, 6), st.booleans())
def test_kafkas_own_indexes_stay_as_they_are(
    shapes: list[Shape], size: int, by_record: bool
) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    segments = old_logs.write(files, found, size, by_record=by_record)
    before = [indexes(files, each) for each in segments]
    log = logs.open_log(files, CONFIG, recovery_point=found[-1].last_offset + 1)
    for written, segment in zip(segments, log.segments, strict=True):
        if written.max_timestamp >= 0:
            assert segment.largest_timestamp() == written.max_timestamp
    for timestamp in range(logs.NOW - 1, logs.NOW + 52, 10):
        asked = logs.offset_for_timestamp(log, timestamp)
        assert (None if asked is None else asked[:2]) == first_not_older(found, timestamp)
    newest = log.offset_of_max_timestamp()
    times = [record.timestamp for record in old_logs.all_records(found)]
    assert newest is None or newest.timestamp == max(times)
    log.close(logs.NOW)
    assert [indexes(files, each) for each in segments] == before


@given(LOGS, st.integers(1, 6))
def test_retention_goes_by_the_largest_timestamp(shapes: list[Shape], size: int) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    segments = old_logs.write(files, found, size, by_record=False)
    log = logs.open_log(files, CONFIG, recovery_point=found[-1].last_offset + 1)
    log.set_high_watermark(log.log_end_offset)
    now_ms = logs.NOW + 1030
    log.delete_old_segments(now_ms)
    kept = [each.base_offset for each in segments]
    for segment in segments:
        newest = segment.max_timestamp
        if newest < 0:
            newest = logs.NOW + old_logs.MODIFIED_MS
        if now_ms - newest <= 1000:
            break
        kept.remove(segment.base_offset)
    assert [each.base_offset for each in log.segments] == (kept or [log.log_end_offset])


@given(LOGS, st.integers(1, 6), st.data())
def test_a_truncated_log_ends_where_a_batch_ends(
    shapes: list[Shape], size: int, data: st.DataObject
) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    old_logs.write(files, found, size)
    log = logs.open_log(files, CONFIG, clean=False)
    offset = data.draw(st.integers(0, log.log_end_offset))
    log.truncate_to(offset, logs.NOW)
    kept = [piece for piece in found if piece.last_offset < offset]
    assert log.log_end_offset == (kept[-1].last_offset + 1 if kept else 0)
    assert logs.read_all(log) == old_logs.all_records(kept)
    files.crash()
    again = logs.open_log(files, CONFIG, clean=False)
    assert logs.read_all(again) == old_logs.all_records(kept)


@given(LOGS, st.integers(1, 6))
def test_a_follower_takes_what_a_leader_of_old_logs_sends(shapes: list[Shape], size: int) -> None:
    found = old_logs.pieces(shapes)
    log = logs.open_log(logs.filesystem(), CONFIG)
    for at in range(0, len(found), size):
        data = b"".join(piece.data for piece in found[at : at + size])
        log.append_as_follower(data, now_ms=logs.NOW)
    assert bytes_of(log) == b"".join(piece.data for piece in found)
    assert logs.read_all(log) == old_logs.all_records(found)
    has_epoch = any(shape.magic == MAGIC for shape in shapes)
    assert log.latest_epoch == (old_logs.EPOCH if has_epoch else -1)


@given(LOGS, st.integers(1, 6))
def test_compaction_keeps_the_last_record_of_each_key(shapes: list[Shape], size: int) -> None:
    files, found = logs.filesystem(), old_logs.pieces(shapes)
    old_logs.write(files, found, size)
    config = cleaning.compacted(internal_segment_bytes=1 << 20, delete_retention_ms=1000)
    log = logs.open_log(files, config, clean=False)
    log.roll(logs.NOW)
    log.set_high_watermark(log.log_end_offset)
    cleaning.clean(files, log, None, logs.NOW)
    records = old_logs.all_records(found)
    last = {record.key: record.offset for record in records}
    kept = [record for record in records if last[record.key] == record.offset]
    assert logs.read_all(log) == kept
    # What stays whole is copied byte for byte; what is written anew is of today's format.
    written = bytes_of(log)
    for start, end in batches(written):
        if read_header(written, start).magic < MAGIC:
            assert written[start : start + end] in {piece.data for piece in found}


def test_tombstones_of_old_messages_go_when_their_horizon_has_passed() -> None:
    files = logs.filesystem()
    values = [(b"a", b"1", logs.NOW), (b"a", None, logs.NOW), (b"b", b"2", logs.NOW)]
    found = old_logs.pieces([Shape(0, 0, [value], None) for value in values])
    old_logs.write(files, found, 3)
    log = logs.open_log(files, cleaning.compacted(delete_retention_ms=1000), clean=False)
    log.roll(logs.NOW)
    log.set_high_watermark(log.log_end_offset)
    cleaning.clean(files, log, None, logs.NOW)
    assert [record.offset for record in logs.read_all(log)] == [1, 2]
    cleaning.put(log, [(b"c", b"3")])
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW + 1001)
    assert [record.offset for record in logs.read_all(log)] == [2, 3]


def test_one_hundred_short_messages_survive_an_unclean_stop() -> None:
    """They are shorter than the header of a batch of today."""
    files = logs.filesystem()
    found = old_logs.pieces([Shape(0, 0, [(b"k", b"%d" % n, -1)], None) for n in range(100)])
    assert max(len(piece.data) for piece in found) < 61
    old_logs.write(files, found, 100)
    log = logs.open_log(files, CONFIG, clean=False)
    assert logs.read_all(log) == old_logs.all_records(found)


def test_a_wrapper_at_the_end_is_no_gap_and_a_changed_offset_is() -> None:
    """It bears the offset of its last record, 4; one bit more would make that 12."""
    first = message(1, Old(0, 5))
    last = wrapper(1, GZIP, [Old(offset, 6) for offset in range(1, 5)])
    for offset, end in ((4, 5), (12, 1)):
        files = logs.filesystem()
        files.make_directory(logs.DIRECTORY)
        files.write(f"{logs.DIRECTORY}/{0:020d}.log", first + offset.to_bytes(8, "big") + last[8:])
        assert logs.open_log(files, CONFIG, clean=False).log_end_offset == end


def test_a_message_that_cannot_be_unpacked_stays_where_it_is() -> None:
    """Its checksum is right, so it is what was written; only its reader is refused."""
    files = logs.filesystem()
    files.make_directory(logs.DIRECTORY)
    strange = message(0, Old(7, -1, None, b"no frame"), LZ4)
    behind = message(0, Old(8))
    files.write(f"{logs.DIRECTORY}/{0:020d}.log", strange + behind)
    log = logs.open_log(files, CONFIG, clean=False)
    assert log.log_end_offset == 9
    assert logs.read_bytes(log, 8) == behind
    log.truncate_to(8, logs.NOW)
    assert log.log_end_offset == 8


def cleaned(files: MemoryFilesystem) -> Log:
    log = logs.open_log(files, cleaning.compacted(), recovery_point=9)
    log.roll(logs.NOW)
    log.set_high_watermark(log.log_end_offset)
    cleaning.clean(files, log, None, logs.NOW)
    return log


def one_segment(*batches: bytes) -> MemoryFilesystem:
    files = logs.filesystem()
    files.make_directory(logs.DIRECTORY)
    files.write(f"{logs.DIRECTORY}/{0:020d}.log", b"".join(batches))
    return files


def test_what_is_written_anew_has_the_codec_and_the_times_that_it_had() -> None:
    """Records of magic 0 have no time, also in a wrapper of magic 1 that has an append time."""
    inside = message(0, Old(0, -1, b"a", b"1")) + message(1, Old(1, 5, b"b", b"2"))
    inside += message(1, Old(2, 5, b"b", b"3"))
    mixed = message(1, Old(2, logs.NOW, None, compress(GZIP, inside)), GZIP | APPEND_TIME)
    log = cleaned(one_segment(mixed, message(1, Old(3, logs.NOW, b"c"))))
    written = bytes_of(log)
    assert read_header(written).magic == MAGIC
    assert read_header(written).codec == GZIP
    found = [(record.offset, record.timestamp) for record in logs.read_all(log)]
    assert found == [(0, -1), (2, logs.NOW), (3, logs.NOW)]


@pytest.mark.parametrize("offset", [3, 6])
def test_a_wrapper_whose_offsets_are_not_its_own_is_not_cleaned(offset: int) -> None:
    """It would get a checksum, and its records offsets that others have."""
    before = message(1, Old(2, logs.NOW, b"a"))
    for magic in (0, 1):
        data = wrapper(magic, GZIP, [Old(3, 1, b"b"), Old(4, 1, b"b")])
        changed = offset.to_bytes(8, "big") + data[8:]
        if magic and offset == 6:
            continue  # in a gap: nobody can tell
        with pytest.raises(CorruptMessage):
            cleaned(one_segment(before, changed, message(1, Old(8, logs.NOW, b"c"))))
