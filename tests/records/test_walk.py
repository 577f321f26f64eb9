import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.raw_batches import raw_record, records, varint
from tests.records.strategies import RECORDS

from ottla.common.errors import InvalidRecord
from ottla.records.record import Record, decode_records, encode_record
from ottla.records.walk import walk


def encoded(of: list[Record]) -> bytes:
    out = bytearray()
    for index, record in enumerate(of):
        delta = record.timestamp - of[0].timestamp
        encode_record(out, delta, index, record.key, record.value, record.headers)
    return bytes(out)


@given(RECORDS)
def test_it_finds_what_the_records_say(of: list[Record]) -> None:
    deltas = [record.timestamp - of[0].timestamp for record in of]
    without_key = sum(record.key is None for record in of)
    assert walk(b"??" + encoded(of), 2, len(of)) == (
        max(deltas),
        deltas.index(max(deltas)),
        min(deltas),
        without_key,
        True,
    )


@given(RECORDS, st.data())
def test_it_agrees_with_the_reader_on_damaged_records(
    of: list[Record], data: st.DataObject
) -> None:
    damaged = bytearray(encoded(of))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_records(bytes(damaged), len(of), 0, 0)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            walk(bytes(damaged), 0, len(of))
        return
    timestamps = [record.timestamp for record in read]
    largest, index, smallest, without_key, in_sequence = walk(bytes(damaged), 0, len(of))
    assert (largest, smallest) == (max(timestamps), min(timestamps))
    assert index == timestamps.index(largest)
    assert without_key == sum(record.key is None for record in read)
    assert in_sequence == ([record.offset for record in read] == list(range(len(of))))


@given(RECORDS)
def test_no_truncation_passes(of: list[Record]) -> None:
    whole = encoded(of)
    for size in {0, 1, len(whole) // 2, len(whole) - 1}:
        with pytest.raises(InvalidRecord):
            walk(whole[:size], 0, len(of))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20000])
def test_offset_deltas_of_every_length_are_in_sequence(count: int) -> None:
    assert walk(records(count), 0, count)[4]


@pytest.mark.parametrize("delta", [0, -1, 63, -64, 64, -65, 8191, -8192, 8192, 1 << 40, -(1 << 63)])
def test_timestamp_deltas_of_every_length(delta: int) -> None:
    data = raw_record() + raw_record(timestamp_delta=delta, offset_delta=1)
    largest, index, smallest, _, _ = walk(data, 0, 2)
    assert (largest, smallest) == (max(0, delta), min(0, delta))
    assert index == (1 if delta > 0 else 0)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 100_000, 3_000_000])
def test_keys_and_values_of_every_length(size: int) -> None:
    data = raw_record(key=bytes(size)) + raw_record(value=bytes(size), offset_delta=1)
    assert walk(data, 0, 2) == (0, 0, 0, 0, True)


def test_wrong_offset_deltas_are_told_but_not_refused() -> None:
    assert not walk(raw_record() * 2, 0, 2)[4]
    assert not walk(raw_record(offset_delta=-1), 0, 1)[4]


def test_a_length_cannot_lead_outside_the_data() -> None:
    for size in (1 << 20, (1 << 31) - 1):
        for field in ("key_size", "value_size", "size", "headers"):
            with pytest.raises(InvalidRecord):
                walk(raw_record(**{field: varint(size)}), 0, 1)  # type: ignore[arg-type]


def test_a_count_of_billions_ends_with_the_data() -> None:
    with pytest.raises(InvalidRecord):
        walk(records(3), 0, (1 << 31) - 1)
