"""Batches of all formats are followed and compared; what is cut, damaged or out of order is not."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records.old_messages import Old, wrapper
from tests.storage import logs

from ottla.common.errors import CorruptMessage
from ottla.records.compression import GZIP
from ottla.tiered.batches import check_batches


def legacy(offset: int, value: bytes, magic: int) -> bytes:
    timestamp = struct.pack(">q", logs.NOW) if magic else b""
    body = bytes([magic, 0]) + timestamp + struct.pack(">ii", -1, len(value)) + value
    checked = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(checked)) + checked


def batches(first: int = 0) -> list[tuple[bytes, int]]:
    """Batches of three formats, in turn, and the last offset of each."""
    found: list[tuple[bytes, int]] = []
    for number in range(9):
        if number % 3:
            found.append((legacy(first, b"x" * number, number % 3 - 1), first))
        else:
            found.append((bytes(logs.batch([b"v"] * 3, base_offset=first)), first + 2))
        first = found[-1][1] + 2
    return found


def test_whole_batches_of_all_formats_are_followed_to_every_bound() -> None:
    data = b"".join(each for each, _ in batches())
    for size in range(len(data) + 1):
        end, offset = 0, 0
        for each, last in batches():
            if end + len(each) > size:
                break
            end, offset = end + len(each), last + 1
        assert check_batches(data[:size], 0, 100) == (end, offset)
    for upper in range(40):
        end, offset = 0, 0
        for each, last in batches():
            if last >= upper:
                break
            end, offset = end + len(each), last + 1
        assert check_batches(memoryview(data), 0, 100, upper) == (end, offset)


@settings(deadline=None)
@given(st.data())
def test_a_bit_that_flips_under_a_checksum_is_found(data: st.DataObject) -> None:
    for each, _ in batches():
        damaged = bytearray(each)
        bit = data.draw(st.integers(8 * 16, 8 * len(each) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptMessage):
            check_batches(bytes(damaged), 0, 100)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_offsets_outside_the_bounds_are_refused(number: int) -> None:
    each, last = batches(50)[number]
    for low, high in ((last + 1, 100), (0, last - 1)):
        with pytest.raises(CorruptMessage, match="are expected"):
            check_batches(each, low, high)


@pytest.mark.parametrize("length", [-(1 << 31), -12, -1, 0, 13, 48])
def test_a_length_that_no_batch_has_is_refused(length: int) -> None:
    damaged = bytearray(batches()[0][0])
    struct.pack_into(">i", damaged, 8, length)
    with pytest.raises(CorruptMessage):
        check_batches(bytes(damaged), 0, 100)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_offset_of_a_wrapper_is_that_of_its_last_message(magic: int) -> None:
    """No checksum covers it; it goes with those within, or with those of the next wrapper."""
    first, second = (
        wrapper(magic, GZIP, [Old(offset) for offset in offsets])
        for offsets in (range(3), range(3, 9))
    )
    assert check_batches(first + second, 0, 100) == (len(first + second), 9)
    for bit in range(64):
        changed = bytearray(first)
        changed[7 - bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptMessage):
            check_batches(bytes(changed) + second, 0, 100)
    with pytest.raises(CorruptMessage):
        check_batches(second, 4, 100)
