"""What is read from a remote segment is what the log had, or an error: never anything else."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage import logs, old_logs
from tests.tiered.remote import CHUNK, Tier, fill, tiered
from tests.tiered.test_copier import flip

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, CorruptMessage
from ottla.records.control import transaction_marker_batch
from ottla.records.rules import AppendOrigin
from ottla.storage.log import Log
from ottla.storage.offset_index import ENTRY
from ottla.storage.remote import RemoteData
from ottla.storage.segment import LOG_SUFFIX
from ottla.storage.time_search import TimestampAndOffset
from ottla.tiered import reader
from ottla.tiered.chunks import AHEAD, Windows
from ottla.tiered.layout import SUFFIXES, object_key
from ottla.tiered.manifest import SIZE_MAX
from ottla.tiered.reader import RemoteReader
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteStoreError

SIZES = st.lists(st.integers(0, 900), min_size=1, max_size=40)
FAR = 1 << 40


def holder(tier: Tier, offset: int) -> RemoteLogSegment | None:
    for segment in tier.segments:
        if segment.start_offset <= offset <= segment.end_offset:
            return segment
    return None


def read(tier: Tier, offset: int, max_bytes: int = 1 << 20, upper: int = FAR) -> RemoteData:
    segment = holder(tier, offset)
    assert segment is not None
    return tier.reader.read(segment, offset, max_bytes, upper_bound_offset=upper)


def random_log(log: Log, sizes: list[int]) -> None:
    for number, size in enumerate(sizes):
        values = [bytes([number % 256]) * size for _ in range(1 + number % 4)]
        # Time goes back now and then, as producers' clocks do.
        timestamps = [logs.NOW + (number * 7 + each * 3) % 50 for each in range(len(values))]
        logs.append_batch(log, logs.batch(values, timestamps=timestamps, codec=number % 3))


@settings(max_examples=100, deadline=None)
@given(
    sizes=SIZES,
    segment_bytes=st.sampled_from([4_000, 9_000, 40_000]),
    interval=st.sampled_from([0, 300, 4096]),
    data=st.data(),
)
def test_a_read_gives_the_batches_that_the_log_gives(
    sizes: list[int], segment_bytes: int, interval: int, data: st.DataObject
) -> None:
    tier = tiered(
        lambda log: random_log(log, sizes),
        internal_segment_bytes=segment_bytes,
        index_interval_bytes=interval,
    )
    log = tier.log
    limits = data.draw(st.lists(st.integers(0, 20_000), min_size=1, max_size=3))
    uppers = data.draw(st.lists(st.integers(0, log.log_end_offset), max_size=2))
    for offset in range(log.log_end_offset):
        for max_bytes in limits:
            for upper in (log.log_end_offset, *uppers):
                local = logs.read_bytes(log, offset, max_bytes=max_bytes, upper=upper)
                remote = read(tier, offset, max_bytes, upper)
                assert remote.records == local
                assert remote.next_offset > offset or not local
    timestamps = data.draw(st.lists(st.integers(-1, 60), min_size=1, max_size=5))
    for timestamp in timestamps:
        assert found_by_time(tier, logs.NOW + timestamp) == logs.offset_for_timestamp(
            log, logs.NOW + timestamp
        )


@given(old_logs.LOGS, st.integers(300, 4000))
def test_messages_of_old_formats_are_read_as_the_log_gives_them(
    shapes: list[old_logs.Shape], segment_bytes: int
) -> None:
    def fill(log: Log) -> None:
        for piece in old_logs.pieces(shapes):
            log.append_as_follower(piece.data, now_ms=logs.NOW)
        log.roll(logs.NOW)

    tier = tiered(fill, internal_segment_bytes=segment_bytes)
    for offset in range(tier.log.log_end_offset):
        local = logs.read_bytes(tier.log, offset, max_bytes=500)
        assert read(tier, offset, 500, tier.log.log_end_offset).records == local
    for timestamp in range(logs.NOW, logs.NOW + 55, 6):
        assert found_by_time(tier, timestamp) == logs.offset_for_timestamp(tier.log, timestamp)


def found_by_time(tier: Tier, timestamp: int) -> TimestampAndOffset | None:
    for segment in tier.segments:
        if segment.max_timestamp_ms >= timestamp:
            found = tier.reader.find_timestamp(segment, timestamp, tier.log.log_start_offset)
            if found is not None:
                return found
    return None


def all_of(tier: Tier, max_bytes: int) -> Iterator[bytes]:
    """As a consumer reads: on and on, from segment to segment."""
    offset = 0
    while (segment := holder(tier, offset)) is not None:
        found = tier.reader.read(segment, offset, max_bytes, upper_bound_offset=FAR)
        assert found.next_offset > offset
        yield found.records
        offset = found.next_offset


@pytest.mark.parametrize("max_bytes", [1, 500, 5_000, 1 << 20])
def test_a_reader_who_goes_on_gets_everything_once(max_bytes: int) -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    local = b"".join(tier.filesystem.read(segment.path) for segment in tier.log.segments)
    assert b"".join(all_of(tier, max_bytes)) == local


def test_a_read_takes_no_more_memory_than_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "READ_MAX", 1_000)
    tier = tiered(fill, internal_segment_bytes=12_000)
    local = b"".join(tier.filesystem.read(segment.path) for segment in tier.log.segments)
    parts = list(all_of(tier, (1 << 31) - 1))
    assert max(map(len, parts)) <= 1_000
    assert b"".join(parts) == local


def test_a_read_behind_the_last_batch_leads_to_the_next_segment() -> None:
    """A segment whose last records are gone, as after compaction."""
    tier = tiered(fill, internal_segment_bytes=12_000)
    segment = tier.segments[0]
    longer = segment._replace(end_offset=segment.end_offset + 10)
    found = tier.reader.read(longer, segment.end_offset + 1, 100, upper_bound_offset=FAR)
    assert found == RemoteData(b"", segment.end_offset + 11, [])


# Requests


def requests_of(tier: Tier) -> list[str]:
    """The kinds of requests from now on."""
    seen: list[str] = []
    tier.store.fail = lambda operation, key: seen.append(f"{operation} .{key.rpartition('.')[2]}")
    return seen


def test_small_steps_cost_a_request_per_chunks_and_not_one_each() -> None:
    tier = tiered(fill, internal_segment_bytes=1 << 20)
    (segment,) = tier.segments
    chunks = -(-segment.size_in_bytes // CHUNK)
    assert chunks > 2 * AHEAD
    seen = requests_of(tier)
    steps = len(list(all_of(tier, 300)))
    assert steps > 50
    assert seen[:3] == ["get_range .json", "get_range .index", "get_range .log"]
    assert len(seen) <= 3 + -(-chunks // (1 + AHEAD))
    assert set(seen[3:]) == {"get_range .log"}


def test_a_read_out_of_the_blue_takes_no_more_than_it_needs() -> None:
    tier = tiered(fill, internal_segment_bytes=1 << 20)
    sizes: list[int] = []
    get_range = tier.store.get_range

    def watched(key: str, start: int, size: int) -> bytes:
        data = get_range(key, start, size)
        sizes.append(len(data))
        return data

    tier.store.get_range = watched  # type: ignore[method-assign]
    for offset in (60, 0, 30, 90):
        read(tier, offset, 10)
    assert max(sizes) <= 2 * CHUNK


def test_a_store_that_fails_gives_its_error_and_then_the_batches() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    expected = read(tier, 5).records
    for number in range(3):
        again = tier.again()
        tier.filesystem.remove_directory(tier.indexes.path)
        again = tier.again()
        tier.store.fail_at(number)
        with pytest.raises(RemoteStoreError):
            read(again, 5)
        assert read(again, 5).records == expected


# Damage


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_bit_that_flips_in_any_object_is_never_served(data: st.DataObject) -> None:
    tier = tiered(with_transactions, internal_segment_bytes=6_000)
    segment = data.draw(st.sampled_from(tier.segments))
    suffix = data.draw(st.sampled_from(SUFFIXES))
    if not tier.store.objects.get(object_key(segment, suffix)):
        return
    position = flip(tier.store, object_key(segment, suffix), data)
    again = tier.again()
    start = max(segment.start_offset, 0)
    for offset in range(start, segment.end_offset + 1, 3):
        local = logs.read_bytes(tier.log, offset, max_bytes=1500)
        try:
            assert read(again, offset, 1500).records == local
        except CorruptMessage:
            # Only where it matters, and with checksums there is always somewhere.
            assert suffix in {LOG_SUFFIX, ".json"}
    if suffix == LOG_SUFFIX:
        hit = [
            offset
            for offset in range(start, segment.end_offset + 1)
            if _is_served_from(tier, offset, position // CHUNK * CHUNK, position)
        ]
        for offset in hit:
            with pytest.raises(CorruptMessage):
                read(again, offset, 1)
    _check_others(tier, again, segment, suffix)


def _is_served_from(tier: Tier, offset: int, chunk: int, position: int) -> bool:
    """Whether the batch of ``offset`` holds the byte at ``position`` of its segment."""
    for segment in tier.log.segments.touching(offset):
        place = segment.locate(offset)
        return place is not None and place.position <= position < place.end and chunk <= position
    return False


def _check_others(tier: Tier, again: Tier, segment: RemoteLogSegment, suffix: str) -> None:
    upper = segment.end_offset + 1
    local = tier.log.aborted_transactions(segment.start_offset, upper)
    following = [each for each in tier.segments if each.start_offset >= segment.start_offset]
    try:
        assert again.reader.aborted_transactions(following, segment.start_offset, upper)[0] == local
    except CorruptMessage:
        assert suffix in {".txnindex", ".json"}
    for timestamp in (logs.NOW, logs.NOW + 5, logs.NOW + 20):
        expected = tier.log.segments.touching(segment.start_offset)
        search = next(iter(expected)).prepare_time_search(timestamp, segment.start_offset)
        held = search.run()
        try:
            assert again.reader.find_timestamp(segment, timestamp, segment.start_offset) == held
        except CorruptMessage:
            assert suffix in {LOG_SUFFIX, ".json"}


@pytest.mark.slow
def test_of_a_thousand_bits_that_flip_none_is_served() -> None:
    """Anywhere in the store, any bit: what is read is what was written, or an error."""
    chance = Chance(7)
    tier = tiered(with_transactions, internal_segment_bytes=6_000)
    whole = dict(tier.store.objects)
    keys = sorted(key for key in whole if whole[key])
    local = {
        offset: logs.read_bytes(tier.log, offset, max_bytes=3000)
        for offset in range(tier.segments[-1].end_offset + 1)
    }
    refused = 0
    for _ in range(1000):
        key = chance.choose(keys)
        damaged = bytearray(whole[key])
        damaged[chance.below(len(damaged))] ^= 1 << chance.below(8)
        tier.store.objects = {**whole, key: bytes(damaged)}
        tier.filesystem.remove_directory(tier.indexes.path)
        again = tier.again()
        for offset in range(0, len(local), 2):
            try:
                assert read(again, offset, 3000).records == local[offset]
            except CorruptMessage:
                refused += 1
    assert refused > 1000


def test_several_threads_read_what_one_reads() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    local = b"".join(tier.filesystem.read(segment.path) for segment in tier.log.segments)
    windows = Windows(tier.store, count_max=2)
    shared = tier._replace(reader=RemoteReader(tier.manifests, tier.indexes, windows))
    found: list[bytes] = []

    def consume(max_bytes: int) -> None:
        found.append(b"".join(all_of(shared, max_bytes)))

    threads = [threading.Thread(target=consume, args=(size,)) for size in (1, 300, 700, 5_000) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [local] * 8


def test_an_index_that_is_damaged_in_the_store_is_made_anew_from_the_batches() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    segment = tier.segments[0]
    for suffix in (".index", ".timeindex"):
        tier.store.put(object_key(segment, suffix), b"\xff" * 24)
    expected = [read(tier, offset, 10).records for offset in range(segment.end_offset)]
    again = tier.again()
    seen = requests_of(again)
    assert [read(again, offset, 10).records for offset in range(segment.end_offset)] == expected
    assert seen.count("get_range .index") == 1
    wanted = logs.NOW + 9
    assert again.reader.find_timestamp(segment, wanted, 0) == logs.offset_for_timestamp(
        tier.log, wanted
    )


def test_an_index_entry_that_is_overwritten_here_is_fetched_again() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    segment = tier.segments[0]
    expected = read(tier, 15, 10).records
    names = tier.filesystem.list_directory(tier.indexes.path)
    (name,) = [name for name in names if name.endswith(".index")]
    path = f"{tier.indexes.path}/{name}"
    whole = tier.filesystem.read(path)
    for entry in ((5, 0), (1, (1 << 31) - 1), (2, -1)):
        tier.filesystem.write(path, ENTRY.pack(*entry) * (len(whole) // ENTRY.size))
        assert tier.reader.read(segment, 15, 10, upper_bound_offset=FAR).records == expected
        assert tier.filesystem.read(path) == whole


def test_the_manifest_of_another_segment_is_not_believed() -> None:
    tier = tiered(fill, internal_segment_bytes=6_000)
    first, second = tier.segments[:2]
    other = tier.store.get(object_key(second, ".json"))
    tier.store.put(object_key(first, ".json"), other)
    with pytest.raises(CorruptMessage, match="is another segment's"):
        read(tier, first.start_offset)


def test_a_manifest_is_bounded() -> None:
    """Not more than its bound is fetched, whatever lies there."""
    tier = tiered(fill, internal_segment_bytes=6_000)
    segment = tier.segments[0]
    tier.store.put(object_key(segment, ".json"), bytes(SIZE_MAX + 2))
    with pytest.raises(CorruptMessage, match="is over 4194304 bytes"):
        read(tier, segment.start_offset)


def test_an_object_that_was_cut_is_not_served() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    segment = tier.segments[0]
    key = object_key(segment, LOG_SUFFIX)
    tier.store.put(key, tier.store.get(key)[:-5000])
    with pytest.raises(ApiError):
        list(all_of(tier, 1000))


# Transactions


def with_transactions(log: Log) -> None:
    """Three producers, every second transaction of whom is aborted, and records between."""
    sequences = dict.fromkeys(range(3), 0)
    for number in range(24):
        producer = number % 3
        for _ in range(1 + number % 2):
            data = logs.batch(
                [b"t" * 150],
                producer_id=producer,
                producer_epoch=0,
                sequence=sequences[producer],
                transactional=True,
                timestamps=[logs.NOW + number],
            )
            sequences[producer] += 1
            logs.append_batch(log, data)
        logs.append(log, b"plain" * 20, timestamp=logs.NOW + number)
        if number % 2:
            marker = transaction_marker_batch(
                commit=number % 4 == 1,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=logs.NOW + number,
            )
            log.append_as_leader(
                marker,
                0,
                len(marker),
                leader_epoch=0,
                now_ms=logs.NOW,
                origin=AppendOrigin.COORDINATOR,
            )


def test_aborted_transactions_are_those_of_the_log() -> None:
    tier = tiered(with_transactions, internal_segment_bytes=2_000)
    log = tier.log
    assert any(not segment.transaction_index_empty for segment in tier.segments)
    complete = set()
    for offset in range(log.log_end_offset):
        following = [each for each in tier.segments if each.end_offset >= offset]
        for upper in range(offset + 1, log.log_end_offset + 1, 2):
            found = tier.reader.aborted_transactions(iter(following), offset, upper)
            assert found.found == log.aborted_transactions(offset, upper)
            complete.add(found.is_complete)
    assert complete == {True, False}


def test_segments_without_aborted_transactions_cost_no_request() -> None:
    tier = tiered(fill, internal_segment_bytes=3_000)
    seen = requests_of(tier)
    assert tier.reader.aborted_transactions(tier.segments, 0, 10).found == []
    assert seen == []


def test_what_is_forgotten_is_asked_for_again() -> None:
    tier = tiered(fill, internal_segment_bytes=12_000)
    segment = tier.segments[0]
    read(tier, 3)
    tier.reader.forget(segment)
    assert tier.indexes.size == 0
    seen = requests_of(tier)
    read(tier, 3)
    assert seen == ["get_range .json", "get_range .index", "get_range .log"]
