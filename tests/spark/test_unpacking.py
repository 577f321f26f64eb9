"""Payloads unpacked into one piece of memory: the same bytes as alone, never more than a limit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.errors import CorruptMessage
from ottla.records.compression import GZIP, LZ4, SNAPPY, ZSTD, DecompressedTooLarge, compress
from ottla.spark.codec.unpacking import Unpacked

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
contents = st.builds(lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 9000))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, *CODECS]), contents), max_size=6))
def test_payloads_follow_one_another(drawn: list[tuple[int, bytes]]) -> None:
    unpacked = Unpacked()
    for _ in range(2):
        unpacked.clear()
        places = [
            unpacked.unpack(codec, memoryview(compress(codec, content)), 1 << 20)
            for codec, content in drawn
        ]
        whole = unpacked.array.tobytes()
        assert [whole[start:end] for start, end in places] == [content for _, content in drawn]
        assert len(whole) == sum(len(content) for _, content in drawn)


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_the_limit_is_refused(codec: int) -> None:
    payload = memoryview(compress(codec, bytes(300_000)))
    assert Unpacked().unpack(codec, payload, 300_000) == (0, 300_000)
    for limit in (299_999, 100_000):
        with pytest.raises(DecompressedTooLarge):
            Unpacked().unpack(codec, payload, limit)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_no_payload_is_refused(codec: int) -> None:
    with pytest.raises(CorruptMessage):
        Unpacked().unpack(codec, memoryview(b"not that at all, in no codec"), 1 << 20)
