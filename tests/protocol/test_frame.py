"""A stream of bytes cut into frames."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import ProtocolViolation
from ottla.protocol.frame import FrameReader, frame


@given(payloads=st.lists(st.binary(max_size=20), max_size=8), sizes=st.lists(st.integers(1, 30)))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    payloads: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(map(frame, payloads))
    reader, frames = FrameReader(20), list[bytes]()
    for size in sizes:
        frames += reader.feed(stream[:size])
        stream = stream[size:]
    frames += reader.feed(memoryview(stream))
    assert frames == payloads
    assert reader.pending == 0


def test_what_is_missing_is_waited_for() -> None:
    reader = FrameReader(100)
    assert reader.feed(b"\x00\x00\x00\x03ab") == []
    assert reader.pending == 6
    assert reader.feed(b"c\x00") == [b"abc"]
    assert reader.pending == 1


@pytest.mark.parametrize("size", ["ffffffff", "fffffffe", "80000000", "00000065", "7fffffff"])
def test_a_frame_must_not_be_larger_than_allowed_or_negative(size: str) -> None:
    reader = FrameReader(100)
    with pytest.raises(ProtocolViolation, match="at most 100"):
        reader.feed(bytes.fromhex(size))


def test_an_announced_frame_costs_no_memory_before_it_comes() -> None:
    tracemalloc.start()
    try:
        readers = [FrameReader(1 << 30) for _ in range(100)]
        for reader in readers:
            reader.feed(b"\x3f\xff\xff\xff" + b"x" * 10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
