import pytest
from aiokafka.record.util import decode_varint_py, encode_varint_py
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import InvalidRecord
from ottla.records.varint import read_varint, read_varlong, varint_size, write_varint

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def encoded(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


@given(INT32)
def test_an_int_is_read_as_it_was_written(value: int) -> None:
    data = b"?" + encoded(value)
    assert read_varint(data, 1) == (value, len(data))


@given(INT64)
def test_a_long_is_read_as_it_was_written(value: int) -> None:
    data = b"?" + encoded(value) + b"!"
    assert read_varlong(data, 1) == (value, len(data) - 1)
    assert varint_size(value) == len(data) - 2


@given(INT64)
def test_another_library_writes_the_same_bytes(value: int) -> None:
    written: list[int] = []
    encode_varint_py(value, written.append)
    assert bytes(written) == encoded(value)
    assert decode_varint_py(bytearray(encoded(value)), 0)[0] == value


def test_the_examples_of_the_format() -> None:
    known = {0: "00", -1: "01", 1: "02", 63: "7e", -64: "7f", 64: "8001", 8191: "fe7f"}
    assert {value: encoded(value).hex() for value in known} == known


def test_the_largest_take_five_and_ten_bytes() -> None:
    assert len(encoded((1 << 31) - 1)) == 5
    assert len(encoded(-(1 << 63))) == 10


def test_a_varint_that_does_not_end_in_time_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        read_varint(b"\xff" * 5 + b"\x00", 0)
    with pytest.raises(InvalidRecord):
        read_varlong(b"\xff" * 10 + b"\x00", 0)


def test_reading_beyond_the_end_is_an_index_error() -> None:
    for data in (b"", b"\x80", b"\x80\x80\x80"):
        with pytest.raises(IndexError):
            read_varint(data, 0)
        with pytest.raises(IndexError):
            read_varlong(data, 0)


def test_bits_beyond_the_type_are_dropped_as_java_drops_them() -> None:
    assert read_varint(b"\xfe\xff\xff\xff\x7f", 0) == ((1 << 31) - 1, 5)
    assert read_varlong(b"\xfe" + b"\xff" * 8 + b"\x7f", 0) == ((1 << 63) - 1, 10)
