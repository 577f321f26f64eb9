"""Batches to Arrow: the same records as the plain decoder's, whatever is in them; no fault missed.

The plain decoder of ``ottla.records`` is the reference; it goes record by record in Python.
"""

import datetime as dt
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.records.batch import read_header, seal
from ottla.records.builder import build_batch
from ottla.records.control import transaction_marker_batch
from ottla.records.record import Record, iterate
from ottla.spark.codec.decoding import AbortedTransaction, BatchDecoder
from ottla.spark.codec.schema import TYPES, Columns

ALL = Columns(list(TYPES))
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
END = 1 << 62

texts = st.text(max_size=5)
contents = st.none() | st.binary(max_size=12)
records = st.builds(
    lambda key, value, headers, stamp: Record(
        offset=0, timestamp=stamp, key=key, value=value, headers=headers
    ),
    contents,
    contents,
    st.lists(st.tuples(texts, contents), max_size=3),
    st.integers(0, 4_000_000_000_000),
)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=6), st.integers(0, 4), st.integers(0, 3)),
    max_size=6,
)


def encode(drawn: list[tuple[list[Record], int, int]]) -> bytes:
    """Batches with gaps between them, each in its codec."""
    data, offset = b"", 10
    for content, codec, gap in drawn:
        offset += gap
        data += bytes(build_batch(content, base_offset=offset, codec=codec))
        offset += len(content)
    return data


def rows_of(data: bytes, low: int, high: int) -> list[dict[str, object]]:
    """What the plain decoder finds."""
    rows: list[dict[str, object]] = []
    pos = 0
    while pos < len(data):
        rows += [
            {
                "key": record.key,
                "value": record.value,
                "topic": "t",
                "partition": 3,
                "offset": record.offset,
                "timestamp": EPOCH + dt.timedelta(milliseconds=record.timestamp),
                "timestampType": 0,
                "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
            }
            for record in iterate(data, pos)
            if low <= record.offset < high
        ]
        pos += read_header(data, pos).size
    return rows


@settings(deadline=None)
@given(batches, st.integers(0, 30), st.integers(0, 30))
def test_it_finds_what_the_plain_decoder_finds(
    drawn: list[tuple[list[Record], int, int]], low: int, length: int
) -> None:
    data = encode(drawn)
    decoder = BatchDecoder(ALL, "t", 3)
    decoded = decoder.decode(data, low, low + length)
    decoded.table.validate(full=True)
    assert decoded.table.to_pylist() == rows_of(data, low, low + length)
    assert decoded.consumed == len(data)
    again = decoder.decode(data, 0, END)
    assert again.table.to_pylist() == rows_of(data, 0, END)


@settings(deadline=None)
@given(batches, st.integers(1, 200))
def test_smaller_tables_hold_the_same_rows(
    drawn: list[tuple[list[Record], int, int]], size_max: int
) -> None:
    data = encode(drawn)
    decoder = BatchDecoder(ALL, "t", 3)
    scanned = decoder.scan(data)
    found = list(decoder.tables(scanned, 0, END, keep=True, size_max=size_max))
    assert [row for table in found for row in table.to_pylist()] == rows_of(data, 0, END)
    assert all(table.num_rows for table in found)


def test_messages_of_old_formats_are_read_and_passed() -> None:
    """One of magic 1 behind batches of today, whose leavings must not be taken for its own."""
    body = bytes([1, 0]) + (7).to_bytes(8, "big") + b"\xff" * 4 + (1).to_bytes(4, "big") + b"v"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    old = (20).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message
    content = [Record(offset=0, timestamp=1, key=None, value=b"%d" % i) for i in range(9)]
    decoder = BatchDecoder(Columns(["offset", "value"]), "t", 3)
    decoder.decode(bytes(build_batch(content, base_offset=0)), 0, END)
    decoded = decoder.decode(old, 0, END)
    assert decoded.table.to_pylist() == [{"offset": 20, "value": b"v"}]
    assert decoded.next_offset == 21


@settings(deadline=None)
@given(st.sets(st.sampled_from(list(TYPES)), min_size=1))
def test_only_the_columns_that_are_wanted_are_made(names: set[str]) -> None:
    wanted = [name for name in TYPES if name in names]
    value = Record(offset=0, timestamp=5, key=b"k", value=None, headers=[("h", b"x")])
    data = bytes(build_batch([value], base_offset=7))
    table = BatchDecoder(Columns(wanted), "t", 3).decode(data, 0, END).table
    table.validate(full=True)
    assert table.to_pylist() == [{name: rows_of(data, 0, END)[0][name] for name in wanted}]


def test_a_batch_that_is_cut_is_left_for_the_next_fetch() -> None:
    first, second = (
        bytes(build_batch([Record(offset=0, timestamp=1, key=None, value=b"v")], base_offset=o))
        for o in (0, 1)
    )
    decoded = BatchDecoder(ALL, "t", 3).decode(first + second[:-1], 0, END)
    assert (decoded.table.num_rows, decoded.next_offset, decoded.consumed) == (1, 1, len(first))


def test_gaps_at_the_end_of_a_batch_are_passed() -> None:
    record = Record(offset=0, timestamp=1, key=None, value=b"v")
    batch = bytearray(build_batch([record], base_offset=5))
    batch[23:27] = (9).to_bytes(4, "big")
    seal(batch, 0, len(batch))
    decoded = BatchDecoder(ALL, "t", 3).decode(bytes(batch), 0, END)
    assert (decoded.table.num_rows, decoded.next_offset) == (1, 15)


def transactional(value: bytes, offset: int, producer_id: int) -> bytes:
    record = Record(offset=0, timestamp=1, key=None, value=value)
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    batch = transaction_marker_batch(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
    )
    batch[0:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def test_what_was_aborted_is_not_shown_to_readers_of_what_is_committed() -> None:
    data = (
        transactional(b"aborted", 0, 1)
        + transactional(b"other", 1, 2)
        + marker(2, 1, commit=False)
        + transactional(b"committed later", 3, 1)
        + marker(4, 2, commit=True)
        + marker(5, 1, commit=True)
    )
    decoder = BatchDecoder(Columns(["value"]), "t", 3)
    aborted = [AbortedTransaction(1, 0)]
    shown = decoder.decode(data, 0, END, aborted=aborted)
    assert shown.table["value"].to_pylist() == [b"other", b"committed later"]
    assert shown.next_offset == 6
    everything = decoder.decode(data, 0, END)
    assert everything.table.num_rows == 3


@pytest.mark.parametrize("codec", range(5))
def test_any_damage_is_a_fault_or_leaves_all_records_as_they_were(codec: int) -> None:
    chance = Chance(codec)
    content = [
        Record(offset=0, timestamp=i, key=b"k%d" % i, value=b"v" * i, headers=[("h", b"x")])
        for i in range(20)
    ]
    sound = bytes(build_batch(content, base_offset=100, codec=codec))
    decoder = BatchDecoder(ALL, "t", 3)
    expected = decoder.decode(sound, 0, END, keep=True).table.to_pylist()
    for _ in range(2_000):
        data = bytearray(sound)
        for _ in range(1 + chance.below(3)):
            data[chance.below(len(data))] = chance.below(256)
        try:
            found = decoder.decode(bytes(data), 0, END).table.to_pylist()
        except ApiError:
            continue
        if bytes(data)[16:] == sound[16:] and bytes(data)[:12] == sound[:12]:
            assert found == expected


@pytest.mark.parametrize("codec", [0, 4])
def test_lengths_that_lie_under_a_right_checksum_are_faults_not_crashes(codec: int) -> None:
    """The maker of a batch can also make its checksum: every byte of the records is tried."""
    chance = Chance(7)
    content = [
        Record(offset=0, timestamp=i, key=b"key", value=b"value", headers=[("h", None)])
        for i in range(4)
    ]
    sound = bytearray(build_batch(content, base_offset=0))
    decoder = BatchDecoder(ALL, "t", 3)
    reference = 0
    for position in range(21, len(sound)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, chance.below(256)):
            batch = bytearray(sound)
            batch[position] = value
            if codec:
                from ottla.records.compression import compress

                payload = compress(codec, bytes(batch[61:]))
                batch[61:] = payload
                batch[22] = (batch[22] & ~7) | codec
                batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
            seal(batch, 0, len(batch))
            data = bytes(batch)
            try:
                table = decoder.decode(data, -END, END).table
            except ApiError:
                continue
            reference += 1
            table.validate()
            assert table.num_rows <= 4
    assert reference > 0
