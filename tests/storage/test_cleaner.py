"""What a cleaning makes of batches: markers, horizons, empty batches, what it refuses."""

import pytest
from tests.records.old_messages import Old, message
from tests.storage import cleaning, logs

from ottla.common.errors import CorruptMessage, InvalidRecord
from ottla.records.batch import LOG_APPEND_TIME, BatchHeader, read_header
from ottla.records.builder import build_batch
from ottla.records.compression import GZIP, compress
from ottla.records.record import Record, iterate
from ottla.storage.cleaning.batch_filter import unpacked
from ottla.storage.cleaning.cleaner import _batches, _size_of_first
from ottla.storage.cleaning.compaction import choose, index_keys
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.log import Log
from ottla.storage.sound_headers import headers_from
from ottla.testing.files import MemoryFilesystem

CONFIG = cleaning.compacted(delete_retention_ms=1000)


def opened() -> tuple[MemoryFilesystem, Log]:
    files = logs.filesystem()
    return files, logs.open_log(files, CONFIG)


def headers(log: Log) -> list[BatchHeader]:
    return [
        header
        for segment in log.segments
        for _, header in headers_from(segment, segment.base_offset)
    ]


def test_a_rewritten_batch_keeps_what_identifies_it() -> None:
    files, log = opened()
    for codec in range(5):
        cleaning.put(
            log,
            [(b"old", b"1"), (b"%d" % codec, b"2"), (b"old", b"3")],
            producer_id=7,
            producer_epoch=2,
            sequence=3 * codec,
            codec=codec,
            epoch=4,
        )
    before = headers(log)
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW)
    after = headers(log)
    assert [header.record_count for header in after] == [1, 1, 1, 1, 2]
    kept = ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence")
    for name in (*kept, "partition_leader_epoch", "attributes"):
        assert [getattr(each, name) for each in after] == [getattr(each, name) for each in before]
    times = [seen.timestamp - logs.NOW for seen in cleaning.read_uncommitted(log)]
    assert times == [1, 1, 1, 1, 1, 2]


def test_tombstones_get_a_horizon_once_and_go_when_it_has_passed() -> None:
    files, log = opened()
    cleaning.put(log, [(b"a", b"1")])
    cleaning.put(log, [(b"a", None), (b"b", b"2")])
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW + 10)
    (header,) = headers(log)
    assert header.delete_horizon_ms == logs.NOW + 1010
    assert [seen[1:] for seen in cleaning.read_uncommitted(log)] == [
        (b"a", None, logs.NOW),
        (b"b", b"2", logs.NOW + 1),
    ]
    for now_ms, count in ((logs.NOW + 1009, 2), (logs.NOW + 1010, 1)):
        cleaning.put(log, [(b"c", b"")])
        log.roll(logs.NOW)
        cleaning.clean(files, log, None, now_ms)
        assert len([seen for seen in cleaning.read_uncommitted(log) if seen.key != b"c"]) == count
        assert headers(log)[0].delete_horizon_ms == logs.NOW + 1010


def test_a_retention_without_end_sets_no_horizon() -> None:
    files = logs.filesystem()
    log = logs.open_log(files, cleaning.compacted(delete_retention_ms=(1 << 63) - 1))
    cleaning.put(log, [(b"a", None)])
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW)
    assert headers(log)[0].delete_horizon_ms is None


def test_append_times_stay_those_of_the_batch() -> None:
    files = logs.filesystem()
    log = logs.open_log(
        files, cleaning.compacted(message_timestamp_type="LogAppendTime", delete_retention_ms=5)
    )
    cleaning.put(log, [(b"a", b"1"), (b"b", None), (b"a", b"2")], now_ms=logs.NOW)
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW)
    (header,) = headers(log)
    assert header.timestamp_type == LOG_APPEND_TIME
    assert header.delete_horizon_ms == logs.NOW + 5
    assert [seen.timestamp for seen in cleaning.read_uncommitted(log)] == [logs.NOW] * 2


def test_the_last_batch_of_a_producer_stays_though_it_is_empty() -> None:
    files, log = opened()
    for sequence in range(3):
        cleaning.put(
            log, [(b"a", b"x")], producer_id=1, producer_epoch=0, sequence=sequence, codec=2
        )
    cleaning.put(log, [(b"a", b"last")])
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW)
    empty, last = headers(log)
    assert (empty.base_offset, empty.record_count, empty.base_sequence) == (2, 0, 2)
    assert (empty.codec, empty.base_timestamp, empty.max_timestamp) == (0, -1, logs.NOW)
    assert last.record_count == 1


def test_the_last_batch_before_the_uncleaned_part_stays_though_it_is_empty() -> None:
    files, log = opened()
    cleaning.put(log, [(b"a", None)])
    log.roll(logs.NOW)
    for now_ms in (logs.NOW, logs.NOW + 5000):
        cleaning.clean(files, log, None, now_ms)
    assert [(each.base_offset, each.record_count) for each in headers(log)] == [(0, 0)]
    cleaning.put(log, [(b"b", b"1")])
    log.roll(logs.NOW)
    cleaning.clean(files, log, None, logs.NOW + 5000)
    assert [(each.base_offset, each.record_count) for each in headers(log)] == [(1, 1)]


def test_a_marker_goes_after_its_records_and_its_horizon() -> None:
    files, log = opened()
    cleaning.put(
        log, [(b"a", b"1")], producer_id=1, producer_epoch=0, sequence=0, transactional=True
    )
    abort = cleaning.end_transaction(log, 1, 0, commit=False)
    cleaning.put(log, [(b"b", b"2")])
    log.roll(logs.NOW)
    log.producers.producers.clear()  # expired
    checkpoint = cleaning.clean(files, log, None, logs.NOW)
    assert [header.base_offset for header in headers(log)] == [abort, abort + 1]
    assert headers(log)[0].delete_horizon_ms is None, "a batch of it was met"
    assert len(log.segments[0].transaction_index.entries) == 1
    for now_ms, offsets in (
        (logs.NOW, [abort, abort + 1]),
        (logs.NOW + 999, [abort, abort + 1]),
        (logs.NOW + 1000, [abort + 1]),
    ):
        cleaning.put(log, [(b"c", b"")])
        log.roll(logs.NOW)
        checkpoint = cleaning.clean(files, log, checkpoint, now_ms)
        found = [header.base_offset for header in headers(log)]
        assert found[: len(offsets)] == offsets
        assert log.segments[0].transaction_index.entries == []


def test_small_and_damaged_input_is_refused() -> None:
    batch = build_batch([Record(key=b"k", value=b"v", timestamp=1, offset=5)], base_offset=5)
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage, match="damaged"):
        _batches(bytes(damaged), -1)
    with pytest.raises(CorruptMessage, match="does not follow"):
        _batches(batch, 5)
    for magic, text in ((1, "damaged"), (3, "no batch of magic 3")):
        other = bytearray(batch)
        other[16] = magic
        with pytest.raises(CorruptMessage, match=text):
            _batches(bytes(other), -1)
    assert _batches(batch + batch[:40], -1)[1] == len(batch)
    inside = message(0, Old(9)) + message(0, Old(9))
    twice = message(0, Old(9, -1, None, compress(GZIP, inside)), GZIP)
    with pytest.raises(CorruptMessage, match="offsets do not rise within"):
        unpacked(twice, 0, read_header(twice))
    assert _batches(batch[:-1], -1) == ([], 0)
    assert _size_of_first(batch[:20], len(batch), "", 0) == len(batch)
    with pytest.raises(CorruptMessage, match="no whole batch"):
        _size_of_first(batch[:20], len(batch) - 1, "", 0)


@pytest.mark.parametrize("cut", range(1, 14))
def test_records_that_lead_outside_their_batch_are_refused(cut: int) -> None:
    batch = build_batch([Record(key=b"key", value=b"v" * 3, timestamp=1)])
    data = batch[61:]
    offsets = OffsetMap(10)
    assert index_keys(data, 0, 1, 0, 0, offsets, 9)
    assert choose(data, 0, 1, 0, offsets, 0, True).count == 1
    with pytest.raises(InvalidRecord):
        choose(data[:-cut], 0, 1, 0, offsets, 0, True)
    with pytest.raises(InvalidRecord):
        index_keys(data[:-cut], 0, 1, 0, 0, offsets, 9)


def test_a_map_keeps_the_newest_offset_of_each_key_until_it_is_full() -> None:
    offsets = OffsetMap(100)
    expected = {}
    for number in range(400):
        key = b"%d" % (number % 95)
        offsets.put(key, number)
        expected[key] = number
    assert (offsets.size, offsets.latest_offset) == (95, 399)
    assert {key: offsets.get(key) for key in expected} == expected
    assert offsets.get(b"unknown") == -1
    assert offsets.utilization == pytest.approx(0.95)


def test_keys_beyond_the_load_factor_are_left_for_the_next_pass() -> None:
    records = [Record(key=b"%d" % number, value=b"", timestamp=1) for number in range(9)]
    data = build_batch(records)[61:]
    offsets = OffsetMap(10)
    assert not index_keys(data, 0, 9, 100, 0, offsets, 5)
    assert offsets.latest_offset == 104
    assert not index_keys(data, 0, 9, 200, 0, offsets, 5)
    assert offsets.latest_offset == 104


def test_records_of_the_clean_part_are_not_mapped() -> None:
    batch = build_batch([Record(key=b"%d" % n, value=b"", timestamp=1) for n in range(4)])
    offsets = OffsetMap(10)
    assert index_keys(batch[61:], 0, 4, 0, 2, offsets, 9)
    assert [offsets.get(b"%d" % n) for n in range(4)] == [-1, -1, 2, 3]
    assert read_header(batch).record_count == len(iterate(batch))
