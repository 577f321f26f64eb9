"""The receive buffer: whatever the pieces, the frames come out as they were sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import ProtocolViolation
from ottla.network.frame_buffer import FIRST_BYTES, KEPT_BYTES_MAX, FrameBuffer
from ottla.protocol.frame import frame


def receive(buffer: FrameBuffer, stream: bytes, piece: int) -> list[bytes]:
    """Feed ``stream`` in pieces of at most ``piece`` bytes, and take what is whole."""
    found: list[bytes] = []
    while stream:
        room = buffer.free()
        assert len(room) > 0, "a reader without room would take the stream for ended"
        count = min(len(room), piece, len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        buffer.came(count)
        while (whole := buffer.frame()) is not None:
            found.append(bytes(whole))
    return found


@given(
    st.lists(st.integers(0, 3 * FIRST_BYTES), max_size=6),
    st.sampled_from([1 << 10, 5_000, FIRST_BYTES, 10 * FIRST_BYTES]),
)
def test_frames_come_out_as_they_went_in(sizes: list[int], piece: int) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(frame(each) for each in frames)
    assert receive(FrameBuffer(1 << 20), stream, piece) == frames


@given(st.lists(st.binary(max_size=9), max_size=20), st.integers(1, 5))
def test_even_lengths_may_come_in_pieces(frames: list[bytes], piece: int) -> None:
    stream = b"".join(frame(each) for each in frames)
    assert receive(FrameBuffer(10), stream, piece) == frames


@pytest.mark.parametrize("announced", [-1, 101, 0x7FFFFFFF, -(1 << 31)])
def test_a_length_that_is_not_allowed_is_refused(announced: int) -> None:
    with pytest.raises(ProtocolViolation):
        receive(FrameBuffer(100), announced.to_bytes(4, "big", signed=True), 4)


def test_room_grows_with_what_has_come_not_with_what_was_announced() -> None:
    buffer = FrameBuffer(1 << 30)
    assert receive(buffer, (1 << 30).to_bytes(4, "big"), 4) == []
    assert len(buffer.free()) < FIRST_BYTES
    receive(buffer, bytes(FIRST_BYTES), FIRST_BYTES)
    assert len(buffer.free()) <= 2 * FIRST_BYTES


def test_a_buffer_that_has_become_very_large_is_given_back() -> None:
    buffer = FrameBuffer(2 * KEPT_BYTES_MAX)
    large = frame(bytes(KEPT_BYTES_MAX + 1))
    assert len(receive(buffer, large, len(large))) == 1
    assert len(buffer.free()) == FIRST_BYTES
    medium = frame(bytes(KEPT_BYTES_MAX // 4))
    receive(buffer, medium, len(medium))
    assert len(buffer.free()) > FIRST_BYTES, "what is needed again is kept"
