"""Batches that are wrong inside: bombs in each codec, lies in the header, forged control records.

Each is refused; none costs memory, and none changes what others wrote.
"""

import gzip
import struct
from typing import Final

import cramjam
import pytest
import zstandard
from tests.differential.wire import Connection, ConnectionClosed, raw_frame
from tests.hostile.test_fuzz import create_target
from tests.hostile.witness import Witness
from tools.kafka_peer.broker_process import BrokerProcess

from ottla.records.batch import seal
from ottla.records.builder import build_batch
from ottla.records.record import Record

BOMB_BYTES: Final = 1 << 30
NONE, CORRUPT_MESSAGE, INVALID_RECORD = 0, 2, 87
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT = 8, 16, 17, 21, 23, 57


def batch(payload: bytes, *, attributes: int = 0, count: int = 1) -> bytes:
    """A batch with a sound header around any payload."""
    template = bytearray(build_batch([Record(value=b"x", timestamp=1_700_000_000_000)])[:61])
    template += payload
    struct.pack_into(">i", template, LENGTH, len(template) - 12)
    struct.pack_into(">h", template, ATTRIBUTES, attributes)
    struct.pack_into(">i", template, LAST_DELTA, count - 1)
    struct.pack_into(">i", template, COUNT, count)
    seal(template, 0, len(template))
    return bytes(template)


def produce(broker: BrokerProcess, records: bytes) -> int | None:
    """The error code, or None when the connection was closed instead."""
    with Connection(broker.port, timeout=20) as connection:
        data = {"name": "target", "partition_data": [{"index": 0, "records": records}]}
        try:
            answer = connection.ask(
                "Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": [data]}
            )
        except ConnectionClosed:
            return None
        (given,) = answer["responses"][0]["partitionResponses"]
        return int(given["errorCode"])


def zeros(size: int) -> bytes:
    return bytes(size)


def gzip_bomb() -> bytes:
    return gzip.compress(zeros(BOMB_BYTES // 4), 9)


def zstd_bomb() -> bytes:
    maker = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [maker.compress(zeros(1 << 24)) for _ in range(BOMB_BYTES >> 24)]
    return b"".join([*parts, maker.flush()])


def lz4_bomb() -> bytes:
    return bytes(cramjam.lz4.compress(zeros(BOMB_BYTES // 8)))


def snappy_bomb() -> bytes:
    """Many blocks of zeros in the framing of xerial, each small on the wire."""
    block = bytes(cramjam.snappy.compress_raw(zeros(1 << 20)))
    blocks = (struct.pack(">i", len(block)) + block) * 15
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


def snappy_lie() -> bytes:
    """A block whose own length says two gigabytes."""
    block = bytes.fromhex("ffffffff07") + b"\x00" * 20
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def record_length_lie() -> bytes:
    """A record that says that it is two gigabytes long."""
    return bytes.fromhex("feffffff0f") + b"\x00" * 50


BOMBS: Final = {
    "gzip": (1, gzip_bomb),
    "snappy": (2, snappy_bomb),
    "snappy that lies": (2, snappy_lie),
    "lz4": (3, lz4_bomb),
    "zstd": (4, zstd_bomb),
    "a record that lies": (0, record_length_lie),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_takes_no_memory(
    name: str, broker: BrokerProcess, witness: Witness
) -> None:
    create_target(broker.port)
    codec, make = BOMBS[name]
    bomb = batch(make(), attributes=codec)
    assert len(bomb) < 1_048_588, "the topic would refuse it for its size"
    for _ in range(3):
        assert produce(broker, bomb) != NONE


@pytest.mark.parametrize("codec", range(1, 5))
def test_noise_for_compressed_records_is_refused(
    codec: int, broker: BrokerProcess, witness: Witness
) -> None:
    create_target(broker.port)
    for noise in (b"", b"\x00", b"\xff" * 40, bytes(range(256)) * 4):
        assert produce(broker, batch(noise, attributes=codec)) != NONE


def test_lies_in_the_header_of_a_batch(broker: BrokerProcess, witness: Witness) -> None:
    create_target(broker.port)
    good = build_batch([Record(value=b"x" * 50, timestamp=1_700_000_000_000)] * 3)
    assert produce(broker, good) == NONE
    lies = [(LENGTH, "i", value) for value in (-1, 0, 1, 48, 49, 2**31 - 1, -(2**31), 10**6)]
    lies += [(MAGIC, "b", value) for value in (-1, 0, 1, 3, 127)]
    lies += [(LAST_DELTA, "i", value) for value in (-1, 0, 1, 3, 2**31 - 1, -(2**31))]
    lies += [(COUNT, "i", value) for value in (-1, 0, 1, 2, 4, 2**31 - 1, -(2**31))]
    for position, form, value in lies:
        changed = bytearray(good)
        struct.pack_into(f">{form}", changed, position, value)
        seal(changed, 0, len(changed))
        assert produce(broker, bytes(changed)) != NONE, (position, value)
    broken = bytearray(good)
    broken[-1] ^= 1
    assert produce(broker, bytes(broken)) == CORRUPT_MESSAGE


def test_control_records_of_a_client_are_refused(broker: BrokerProcess, witness: Witness) -> None:
    create_target(broker.port)
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)
    refusals = {False: INVALID_RECORD, True: TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    for transactional, refusal in refusals.items():
        forged = build_batch(
            [Record(key=key, value=value, timestamp=1_700_000_000_000)],
            producer_id=5,
            producer_epoch=0,
            control=True,
            transactional=transactional,
        )
        assert produce(broker, forged) == refusal


def test_twelve_bytes_that_killed_another_broker(broker: BrokerProcess, witness: Witness) -> None:
    body = bytes.fromhex("00ffff00007530ffffffff0f")
    for version in range(3, 14):
        with Connection(broker.port, timeout=2) as connection:
            connection.send(raw_frame("Produce", version, body))
            try:
                connection.receive()
            except (ConnectionClosed, TimeoutError):
                continue
