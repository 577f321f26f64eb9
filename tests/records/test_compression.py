"""Each codec against other people's, and bombs of every kind."""

import contextlib
import gzip
import os
import pickle
import struct
import subprocess
import sys

import aiokafka.codec
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import ApiError, CorruptMessage, UnsupportedCompressionType
from ottla.records.compression import (
    GZIP,
    LZ4,
    NAMES,
    SNAPPY,
    ZSTD,
    DecompressedTooLarge,
    compress,
    decompress,
)

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
ZEROS = bytes(64 << 20)
DATA = st.binary(max_size=300) | st.builds(
    lambda seed, times: seed * times, st.binary(min_size=1, max_size=50), st.integers(1, 9000)
)


@given(DATA, st.sampled_from(CODECS))
def test_what_was_packed_is_unpacked(data: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(GZIP, [1, 6, 9, -1]), (LZ4, [1, 9, 12, 17]), (ZSTD, [-7, 1, 3, 22])]
)
def test_levels_change_the_size_and_not_the_data(codec: int, levels: list[int]) -> None:
    data = b" ".join(b"%d %x" % (index * index % 977, index) for index in range(30_000))
    packed = [compress(codec, data, level) for level in levels]
    assert len({len(one) for one in packed}) > 1
    assert all(decompress(codec, one) == data for one in packed)


@given(DATA)
def test_other_libraries_unpack_what_we_pack(data: bytes) -> None:
    assert gzip.decompress(compress(GZIP, data)) == data
    assert lz4.frame.decompress(compress(LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(ZSTD, data)) == data
    if data:  # that library takes an empty stream for a raw block
        assert aiokafka.codec.snappy_decode(compress(SNAPPY, data)) == data


@given(DATA)
def test_we_unpack_what_other_libraries_pack(data: bytes) -> None:
    assert decompress(GZIP, gzip.compress(data)) == data
    assert decompress(SNAPPY, aiokafka.codec.snappy_encode(data)) == data
    assert decompress(LZ4, aiokafka.codec.lz4_encode(data)) == data
    assert decompress(ZSTD, aiokafka.codec.zstd_encode(data)) == data


@pytest.mark.parametrize("options", [{}, {"block_checksum": True}, {"content_checksum": True}])
@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_every_kind_are_read(
    options: dict[str, bool], store_size: bool, block_size: int
) -> None:
    data = bytes(range(256)) * 2000
    frame = lz4.frame.compress(
        data, block_linked=False, block_size=block_size, store_size=store_size, **options
    )
    assert decompress(LZ4, frame) == data


def test_our_lz4_frames_have_independent_blocks_of_64_kib() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, bytes(200_000)))
    assert not info["block_linked"]
    assert info["block_size"] == 65536


def test_what_lz4_cannot_shrink_is_stored() -> None:
    noise = zstandard.ZstdCompressor(19).compress(bytes(range(256)) * 5000) * 200
    assert len(compress(LZ4, noise)) < len(noise) + 100
    assert decompress(LZ4, compress(LZ4, noise)) == noise


def test_linked_blocks_are_refused_as_kafka_refuses_them() -> None:
    with pytest.raises(CorruptMessage, match="dependent"):
        decompress(LZ4, lz4.frame.compress(bytes(200_000), block_linked=True))


def test_zstd_without_a_content_size_is_read() -> None:
    data = b"abc" * 100_000
    packer = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(ZSTD, packer.compress(data)) == data


def test_several_gzip_members_are_read_as_one_stream() -> None:
    assert decompress(GZIP, gzip.compress(b"ab") + gzip.compress(b"cd") + b"junk") == b"abcd"


def bombs() -> dict[str, tuple[int, bytes]]:
    raw_snappy = bytes([0xFF, 0xFF, 0xFF, 0xFF, 0x0F]) + b"\x00a" + b"\xfe\x01\x00" * 50
    xerial = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(raw_snappy)) + raw_snappy
    frame = lz4.frame.compress(ZEROS, block_linked=False, block_size=4, store_size=False)
    (size,) = struct.unpack_from("<I", frame, 7)
    run = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return {
        "gzip": (GZIP, gzip.compress(ZEROS + b"1", 9)),
        "gzip in many members": (GZIP, gzip.compress(ZEROS[: 1 << 20], 9) * 65),
        "zstd": (ZSTD, zstandard.ZstdCompressor(19).compress(ZEROS + b"1")),
        "zstd without a content size": (
            ZSTD,
            zstandard.ZstdCompressor(write_content_size=False).compress(ZEROS + b"1"),
        ),
        "zstd of runs": (ZSTD, bytes.fromhex("28b52ffd0058") + run * 40_000 + b"\x01\0\0"),
        "lz4": (LZ4, frame[:7] + frame[7 : 7 + 4 + size] * 5_000 + bytes(4)),
        "snappy that says so": (SNAPPY, raw_snappy),
        "snappy in chunks": (SNAPPY, xerial),
        "snappy of many chunks": (SNAPPY, compress(SNAPPY, ZEROS + b"1")),
    }


@pytest.mark.parametrize(("codec", "bomb"), bombs().values(), ids=bombs())
def test_a_bomb_is_refused(codec: int, bomb: bytes) -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb, limit=16 << 20)


def test_bombs_take_no_more_memory_than_their_limit() -> None:
    """In a process of its own: the peak of this one is that of all tests."""
    program = """
import pickle, resource, sys
from ottla.records.compression import DecompressedTooLarge, decompress
bombs = pickle.load(sys.stdin.buffer)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for codec, bomb in bombs:
    try:
        decompress(codec, bomb, limit=16 << 20)
    except DecompressedTooLarge:
        continue
    sys.exit("a bomb went off")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(list(bombs().values())),
        capture_output=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    assert int(done.stdout) < (48 << 10)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_itself_is_allowed(codec: int) -> None:
    data = b"abcdefgh" * 10_000
    assert decompress(codec, compress(codec, data), limit=len(data)) == data
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, compress(codec, data), limit=len(data) - 1)


@given(st.sampled_from(CODECS), DATA, st.data())
def test_damage_raises_nothing_but_refusals(codec: int, data: bytes, draw: st.DataObject) -> None:
    packed = bytearray(compress(codec, data))
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(ApiError):
        assert len(decompress(codec, bytes(packed), limit=1 << 20)) <= 1 << 20


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_refusals(codec: int, data: bytes) -> None:
    magic = {GZIP: b"\x1f\x8b\x08", LZ4: b"\x04\x22\x4d\x18", ZSTD: b"\x28\xb5\x2f\xfd"}
    for packed in (data, magic.get(codec, b"\x82SNAPPY\0") + data):
        with contextlib.suppress(ApiError):
            assert len(decompress(codec, packed, limit=1 << 20)) <= 1 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_no_truncation_is_unpacked(codec: int) -> None:
    packed = compress(codec, b"some text, some more text, " * 20_000)
    chunk_ends = 0
    for size in range(1, len(packed), max(1, len(packed) // 300)):
        try:
            decompress(codec, packed[:size])
        except CorruptMessage:
            continue
        chunk_ends += 1
    assert chunk_ends == 0


def test_no_codec_is_no_change() -> None:
    assert compress(0, b"abc") == decompress(0, b"abc") == b"abc"


def test_codecs_that_do_not_exist_are_refused() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(UnsupportedCompressionType):
            compress(codec, b"")
        with pytest.raises(UnsupportedCompressionType):
            decompress(codec, b"")


def test_the_names_are_those_of_the_settings() -> None:
    assert NAMES == ("none", "gzip", "snappy", "lz4", "zstd")
