"""What producers might send, and the error code with which Apache Kafka 4.3.1 answered it.

``test_produced_batches`` asks the real one whether the codes here are still its own. Where ours
differs it stands beside, with the reason.
"""

from dataclasses import dataclass, field

import cramjam
import lz4.frame
import zstandard
from tests.records.raw_batches import (
    GOOD,
    changed,
    raw_batch,
    raw_record,
    records,
    varint,
)

from ottla.common.errors import ErrorCode
from ottla.records import compression
from ottla.records.batch import LOG_APPEND_TIME
from ottla.records.rules import AppendRules

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
TIMESTAMP = ErrorCode.INVALID_TIMESTAMP

RULES = {
    "plain": AppendRules(),
    "compacted": AppendRules(compacted=True),
    "bounded": AppendRules(timestamp_before_max_ms=600_000, timestamp_after_max_ms=600_000),
    "append-time": AppendRules(timestamp_type=LOG_APPEND_TIME),
    "small": AppendRules(max_message_bytes=200),
    "gzip": AppendRules(compression_type="gzip"),
    "uncompressed": AppendRules(compression_type="uncompressed"),
    "gzip-small": AppendRules(compression_type="gzip", max_message_bytes=200),
    "uncompressed-small": AppendRules(compression_type="uncompressed", max_message_bytes=200),
}
TOPIC_CONFIGS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "bounded": {
        "message.timestamp.before.max.ms": "600000",
        "message.timestamp.after.max.ms": "600000",
    },
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "200"},
    "gzip": {"compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip-small": {"compression.type": "gzip", "max.message.bytes": "200"},
    "uncompressed-small": {"compression.type": "uncompressed", "max.message.bytes": "200"},
}


@dataclass(frozen=True)
class Case:
    name: str
    batch: bytes
    kafka: ErrorCode
    topic: str = "plain"
    ours: ErrorCode | None = None
    why: str = ""
    errors_at: list[int] = field(default_factory=list)

    @property
    def expected(self) -> ErrorCode:
        return self.kafka if self.ours is None else self.ours


def _flipped(position: int, batch: bytes) -> bytes:
    damaged = bytearray(batch)
    damaged[position] ^= 1
    return bytes(damaged)


FRAMES = [
    Case("nothing", b"", INVALID),
    Case("ten bytes", GOOD[:10], INVALID),
    Case("sixteen bytes", GOOD[:16], INVALID),
    Case("sixteen bytes of zero", bytes(16), CORRUPT),
    Case("up to the magic", GOOD[:17], INVALID),
    Case("a cut batch", GOOD[:-1], INVALID),
    Case("a header whose records are missing", GOOD[:61], INVALID),
    Case("two batches", GOOD + GOOD, INVALID),
    Case("five bytes behind", GOOD + b"abcde", NONE),
    Case("zeros behind", GOOD + bytes(17), CORRUPT),
    Case("a cut batch behind", GOOD + GOOD[:-1], NONE),
    Case("a batch of unknown magic behind", GOOD + changed(GOOD, magic=5), CORRUPT),
    Case("a batch of magic 1 behind", GOOD + changed(GOOD, magic=1), INVALID),
    Case("magic 0", changed(GOOD, magic=0), INVALID),
    Case("magic 1", changed(GOOD, magic=1), INVALID),
    Case("magic 3", changed(GOOD, magic=3), CORRUPT),
    Case("magic -1", changed(GOOD, magic=-1), CORRUPT),
    Case("length 13", changed(GOOD, length=13), CORRUPT),
    Case("length 14", changed(GOOD, length=14), CORRUPT),
    Case("length 0", changed(GOOD, length=0), CORRUPT),
    Case("length -1", changed(GOOD, length=-1), CORRUPT),
    Case("length 48", changed(GOOD, length=48), CORRUPT),
    Case("one byte too long", changed(GOOD, length=len(GOOD) - 11), INVALID),
    Case("one byte too short", changed(GOOD, length=len(GOOD) - 13), CORRUPT),
    Case(
        "the largest length",
        changed(GOOD, length=2**31 - 1),
        UNKNOWN,
        ours=INVALID,
        why="an overflow there; here a batch that is cut",
    ),
    Case(
        "a whole batch shorter than its header",
        changed(GOOD, length=14)[:26],
        UNKNOWN,
        ours=CORRUPT,
        why="a read behind the end there; here a damaged batch",
    ),
    Case("a header without records", raw_batch(b"", 1), INVALID),
]

HEADERS = [
    Case("a good batch", GOOD, NONE),
    Case("a wrong checksum", changed(GOOD, crc=1), CORRUPT),
    Case("base offset 5", changed(GOOD, base_offset=5), INVALID),
    Case("base offset -1", changed(GOOD, base_offset=-1), INVALID),
    Case("no records", changed(GOOD, record_count=0, last_offset_delta=-1), INVALID),
    Case("no records, last delta 0", changed(GOOD, record_count=0), INVALID),
    Case("count -1", changed(GOOD, record_count=-1), INVALID),
    Case("count 2", changed(GOOD, record_count=2), INVALID),
    Case("count 2, last delta 1", changed(GOOD, record_count=2, last_offset_delta=1), INVALID),
    Case("last delta 1", changed(GOOD, last_offset_delta=1), INVALID),
    Case("last delta -1", changed(GOOD, last_offset_delta=-1), INVALID),
    Case(
        "the largest count",
        changed(GOOD, last_offset_delta=2**31 - 2, record_count=2**31 - 1),
        INVALID,
    ),
    Case("a control batch", changed(GOOD, attributes=0x20), INVALID),
    Case("a delete horizon", changed(GOOD, attributes=0x40), NONE),
    Case("an attribute that is not defined", changed(GOOD, attributes=0x80), NONE),
    Case("a leader epoch", changed(GOOD, partition_leader_epoch=99), NONE),
    Case("codec 5", changed(GOOD, attributes=5), UNKNOWN),
    Case("codec 7", changed(GOOD, attributes=7), UNKNOWN),
    Case("too large", raw_batch(raw_record(value=bytes(300)), 1), TOO_LARGE, "small"),
    Case("just as large as allowed", raw_batch(raw_record(value=bytes(129)), 1), NONE, "small"),
    Case("one byte larger", raw_batch(raw_record(value=bytes(130)), 1), TOO_LARGE, "small"),
    Case(
        "too large and damaged",
        raw_batch(raw_record(value=bytes(300)), 1, crc=0),
        TOO_LARGE,
        "small",
    ),
    Case(
        "too large with a base offset",
        raw_batch(raw_record(value=bytes(300)), 1, base_offset=4),
        INVALID,
        "small",
    ),
]


def produced_by(producer_id: int, epoch: int, sequence: int) -> bytes:
    return changed(GOOD, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


PRODUCERS = [
    Case("a first sequence", produced_by(1000, 0, 0), NONE),
    Case("a first sequence that is not 0", produced_by(1001, 0, 10), NONE),
    Case("a producer without a sequence", produced_by(1002, 0, -1), INVALID),
    Case("sequence -2", produced_by(1003, 0, -2), INVALID),
    Case("a producer without an epoch", produced_by(1004, -1, 0), NONE),
    Case("epoch -2", produced_by(1005, -2, 0), ErrorCode.INVALID_PRODUCER_EPOCH),
    Case("producer id -2", produced_by(-2, 0, 0), NONE),
    Case("epoch and sequence without a producer", produced_by(-1, 3, 4), NONE),
]


def one(**fields: object) -> bytes:
    return raw_batch(raw_record(**fields), 1)  # type: ignore[arg-type]


RECORDS = [
    Case("three records", raw_batch(records(3), 3), NONE),
    Case("one more than counted", raw_batch(records(3), 2), INVALID),
    Case("one fewer than counted", raw_batch(records(3), 4), INVALID),
    Case("a byte behind the records", raw_batch(records(3) + b"\0", 3), INVALID),
    Case("the same offset delta thrice", raw_batch(raw_record() * 3, 3), NONE),
    Case("offset delta 5", one(offset_delta=5), NONE),
    Case("offset delta -1", one(offset_delta=-1), NONE),
    Case("record attributes", one(attributes=7), NONE),
    Case("a record of no bytes", raw_batch(b"\0", 1), INVALID),
    Case("a record of -1 bytes", raw_batch(b"\1", 1), INVALID),
    Case("a negative size before a record", one(size=varint(-1)), INVALID),
    Case("a size that is the record's, but negative", one(size=varint(-9)), INVALID),
    Case("a size beyond the batch", one(size=varint(100)), INVALID),
    Case("a size below the record", one(size=varint(3)), INVALID),
    Case(
        "a size that does not end",
        raw_batch(b"\xff" * 6 + raw_record(), 1),
        UNKNOWN,
        ours=INVALID,
        why="an accident there; here a record that is none",
    ),
    Case("no key", one(key=None), NONE),
    Case("a key of -5 bytes", one(key=None, key_size=varint(-5)), NONE),
    Case("an empty key", one(key=b""), NONE),
    Case("a key beyond the record", one(key_size=varint(1000)), INVALID),
    Case("a key of the largest size", one(key_size=varint(2**31 - 1)), INVALID),
    Case("a key size that does not end", one(key_size=b"\xff" * 6), INVALID),
    Case("a key size of two bytes that one would do for", one(key_size=b"\x82\x00"), NONE),
    Case("a value of -7 bytes", one(value=None, value_size=varint(-7)), NONE),
    Case("a value beyond the record", one(value_size=varint(1000)), INVALID),
    Case("-1 headers", one(headers=varint(-1)), INVALID),
    Case("headers that are missing", one(headers=varint(5)), INVALID),
    Case("2^31 - 1 headers", one(headers=varint(2**31 - 1)), INVALID),
    Case("a header without a key", one(headers=varint(1) + varint(-1) * 2), INVALID),
    Case("a header without a value", one(headers=b"\x02\x02h" + varint(-3)), NONE),
    Case("an empty header", one(headers=b"\x02\x00\x00"), NONE),
    Case("a header beyond the record", one(headers=b"\x02\x02h" + varint(400)), INVALID),
    Case("bytes behind the headers", one(headers=b"\x00zz"), INVALID),
    Case(
        "a timestamp delta that does not end",
        raw_batch(varint(30) + b"\0" + b"\xff" * 11 + bytes(18), 1),
        INVALID,
    ),
    Case("no key for a compacted topic", one(key=None), INVALID, "compacted", errors_at=[0]),
    Case("an empty key for a compacted topic", one(key=b""), NONE, "compacted"),
    Case(
        "some keys for a compacted topic",
        raw_batch(
            raw_record(key=None)
            + raw_record(offset_delta=1)
            + raw_record(key=None, offset_delta=2),
            3,
        ),
        INVALID,
        "compacted",
        errors_at=[0, 2],
    ),
]

TIMESTAMPS = [
    Case("an hour late", one(timestamp_delta=-3_600_000), TIMESTAMP, "bounded", errors_at=[0]),
    Case("a minute late", one(timestamp_delta=-60_000), NONE, "bounded"),
    Case("a minute early", one(timestamp_delta=60_000), NONE, "bounded"),
    Case("an hour early", one(timestamp_delta=3_600_000), TIMESTAMP, "bounded", errors_at=[0]),
    Case("two hours early", one(timestamp_delta=7_200_000), TIMESTAMP, errors_at=[0]),
    Case("a year late", one(timestamp_delta=-31_536_000_000), NONE),
    Case(
        "no timestamp",
        raw_batch(raw_record(), 1, base_timestamp=-1, max_timestamp=-1),
        NONE,
        "bounded",
    ),
    Case(
        "one early, one right, one late",
        raw_batch(
            raw_record(timestamp_delta=3_600_000)
            + raw_record(offset_delta=1)
            + raw_record(offset_delta=2, timestamp_delta=-3_600_000),
            3,
        ),
        TIMESTAMP,
        "bounded",
        errors_at=[0, 2],
    ),
    Case("before 1970", raw_batch(raw_record(), 1, base_timestamp=-5, max_timestamp=-5), NONE),
    Case(
        "the largest timestamp",
        raw_batch(raw_record(), 1, base_timestamp=2**63 - 1),
        TIMESTAMP,
        errors_at=[0],
    ),
    Case(
        "the smallest timestamp",
        raw_batch(raw_record(), 1, base_timestamp=-(2**63)),
        TIMESTAMP,
        errors_at=[0],
    ),
    Case(
        "more than the largest timestamp",
        raw_batch(raw_record(timestamp_delta=1), 1, base_timestamp=2**63 - 1),
        TIMESTAMP,
        errors_at=[0],
    ),
    Case("another largest timestamp in the header", one(timestamp_delta=-100), NONE),
    Case("append time for a topic of create time", changed(GOOD, attributes=8), NONE),
    Case(
        "append time without a timestamp",
        changed(GOOD, attributes=8, max_timestamp=-1),
        TIMESTAMP,
        errors_at=[0],
    ),
    Case(
        "append time of 1970",
        changed(GOOD, attributes=8, max_timestamp=5),
        TIMESTAMP,
        "bounded",
        errors_at=[0],
    ),
    Case(
        "append time for a topic of append time",
        changed(GOOD, attributes=8),
        TIMESTAMP,
        "append-time",
        errors_at=[0],
    ),
    Case(
        "the largest timestamp for a topic of append time",
        raw_batch(raw_record(timestamp_delta=1), 1, base_timestamp=2**63 - 1),
        NONE,
        "append-time",
    ),
    Case("create time for a topic of append time", GOOD, NONE, "append-time"),
]


def _per_codec(codec: int) -> list[Case]:
    name = compression.NAMES[codec]

    def batch(payload: bytes, count: int, **fields: int) -> bytes:
        return raw_batch(payload, count, attributes=codec, **fields)

    def packed(data: bytes, count: int, **fields: int) -> bytes:
        return batch(compression.compress(codec, data), count, **fields)

    three = compression.compress(codec, records(3))
    wrong_size = "accepted there, and then read by no consumer"
    trailing_is_ignored = codec in (compression.GZIP, compression.LZ4)
    cases = [
        Case("three records", batch(three, 3), NONE),
        Case("one more than counted", batch(three, 2), INVALID),
        Case("one fewer than counted", batch(three, 4), INVALID),
        Case("a byte behind the records", packed(records(3) + b"\0", 3), INVALID),
        Case("junk behind", batch(three + b"junk", 3), NONE if trailing_is_ignored else UNKNOWN),
        Case("cut", batch(three[:-3], 3), UNKNOWN),
        Case("plain bytes", batch(records(3), 3), UNKNOWN),
        Case("nothing packed", packed(b"", 1), INVALID),
        Case("no payload", batch(b"", 1), INVALID if codec == compression.ZSTD else UNKNOWN),
        Case("wrong offset deltas", packed(raw_record(offset_delta=5) * 3, 3), UNKNOWN),
        Case("a record of -1 bytes", packed(b"\1", 1), INVALID),
        Case("a record of no bytes", packed(b"\0", 1), INVALID),
        Case("a size beyond", packed(raw_record(size=varint(100)), 1), NONE, "plain", INVALID,
             wrong_size),
        Case("a size below", packed(raw_record(size=varint(3)), 1), NONE, "plain", INVALID,
             wrong_size),
        Case("a size that does not end", packed(b"\xff" * 6 + raw_record(), 1), INVALID),
        Case("a key beyond", packed(raw_record(key_size=varint(1000)), 1), INVALID),
        Case("a key of -7 bytes", packed(raw_record(key=None, key_size=varint(-7)), 1), NONE),
        Case("-1 headers", packed(raw_record(headers=varint(-1)), 1), INVALID),
        Case("too many headers", packed(raw_record(headers=varint(500)), 1), INVALID),
        Case("bytes behind the headers", packed(raw_record(headers=b"\0zz"), 1), INVALID),
        Case("no key", packed(raw_record(key=None), 1), INVALID, "compacted", errors_at=[0]),
        Case("late", packed(raw_record(timestamp_delta=-3_600_000), 1), TIMESTAMP, "bounded",
             errors_at=[0]),
        Case("another largest timestamp", packed(raw_record(timestamp_delta=-500), 1), NONE),
        Case("for append time", packed(raw_record(), 1), NONE, "append-time"),
        Case("small enough packed", packed(raw_record(value=bytes(1000)), 1), NONE, "small"),
        Case("to be unpacked", batch(three, 3), NONE, "uncompressed"),
        Case("too large unpacked", packed(raw_record(value=bytes(1000)), 1), TOO_LARGE,
             "uncompressed-small"),
        Case("to be packed anew", batch(three, 3), NONE, "gzip"),
    ]  # fmt: skip
    return [
        Case(f"{name}: {c.name}", c.batch, c.kafka, c.topic, c.ours, c.why, c.errors_at)
        for c in cases
    ]


def _lz4(data: bytes, **options: object) -> bytes:
    frame: bytes = lz4.frame.compress(data, **options)
    return frame


_BIG = raw_record(value=bytes(200_000))
_INDEPENDENT = _lz4(_BIG, block_linked=False)
_CHECKED = _lz4(_BIG, block_linked=False, block_checksum=True, content_checksum=True)
_ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress(records(3))
_SKIPPABLE = bytes.fromhex("502a4d1804000000") + b"abcd"
_GZIP = compression.compress(compression.GZIP, records(3))
_SNAPPY = compression.compress(compression.SNAPPY, records(3))

PAYLOADS = [
    Case("lz4: linked blocks", raw_batch(_lz4(_BIG, block_linked=True), 1, attributes=3), UNKNOWN),
    Case("lz4: every checksum", raw_batch(_CHECKED, 1, attributes=3), NONE),
    Case(
        "lz4: the content size", raw_batch(_lz4(_BIG, block_linked=False, store_size=True), 1,
        attributes=3), NONE,
    ),
    Case(
        "lz4: blocks of 4 MiB", raw_batch(_lz4(_BIG, block_linked=False, block_size=7), 1,
        attributes=3), NONE,
    ),
    Case("lz4: a bad header", raw_batch(_flipped(6, _INDEPENDENT), 1, attributes=3), UNKNOWN),
    Case("lz4: a bad block", raw_batch(_flipped(-9, _CHECKED), 1, attributes=3), UNKNOWN),
    Case(
        "lz4: a bad content checksum", raw_batch(_flipped(-1, _CHECKED), 1, attributes=3), NONE,
        ours=UNKNOWN, why="what is damaged is not stored",
    ),
    Case("lz4: a frame behind", raw_batch(_INDEPENDENT * 2, 2, attributes=3), INVALID),
    Case(
        "snappy: one raw block",
        raw_batch(bytes(cramjam.snappy.compress_raw(records(3))), 3, attributes=2),
        NONE,
    ),
    Case(
        "snappy: the framing of another library",
        raw_batch(bytes(cramjam.snappy.compress(records(3))), 3, attributes=2),
        UNKNOWN,
    ),
    Case(
        "snappy: another version",
        raw_batch(_SNAPPY[:8] + bytes([0, 0, 0, 5, 0, 0, 0, 5]) + _SNAPPY[16:], 3, attributes=2),
        NONE,
    ),
    Case("zstd: a checksum", raw_batch(_ZSTD, 3, attributes=4), NONE),
    Case("zstd: a bad checksum", raw_batch(_flipped(-1, _ZSTD), 3, attributes=4), UNKNOWN),
    Case("zstd: a skippable frame before", raw_batch(_SKIPPABLE + _ZSTD, 3, attributes=4), NONE),
    Case("gzip: a bad checksum", raw_batch(_flipped(-5, _GZIP), 3, attributes=1), UNKNOWN),
    Case("gzip: a bad size", raw_batch(_flipped(-1, _GZIP), 3, attributes=1), UNKNOWN),
    Case("plain to be packed", raw_batch(records(3), 3), NONE, "gzip"),
    Case("plain with wrong deltas to be packed", raw_batch(raw_record() * 3, 3), NONE, "gzip"),
    Case("too large before it is packed", one(value=bytes(1000)), TOO_LARGE, "gzip-small"),
]  # fmt: skip

CASES = [
    *FRAMES,
    *HEADERS,
    *PRODUCERS,
    *RECORDS,
    *TIMESTAMPS,
    *(case for codec in (1, 2, 3, 4) for case in _per_codec(codec)),
    *PAYLOADS,
]
