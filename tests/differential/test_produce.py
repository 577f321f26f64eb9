"""Produce: what is taken, what is refused and why, and what lies in the log afterwards."""

import struct

import pytest
from tests.differential.history import BASE_TIME, batch
from tests.differential.pair import Pair, partition_data
from tests.differential.wire import raw_frame

from ottla.records.batch import seal
from ottla.records.builder import build_batch
from ottla.records.record import Record

ALL = range(3, 14)
SOME = (3, 8, 12, 13)
MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT = 16, 17, 21, 23, 57


def altered(data: bytes, position: int, form: str, value: int, *, resealed: bool = True) -> bytes:
    """A batch with another value in one field of its header."""
    changed = bytearray(data)
    struct.pack_into(f">{form}", changed, position, value)
    if resealed:
        seal(changed, 0, len(changed))
    return bytes(changed)


def read_back(pair: Pair, topic: str, *, partition: int = 0) -> None:
    """What both logs hold now, byte by byte."""
    pair.ask(
        "Fetch", f"what lies in {topic}", versions=[12], max_wait_ms=100, min_bytes=0,
        topics=[{"topic": topic, "partitions": [
            {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 10_000_000}]}],
    )  # fmt: skip


def test_batches_are_taken(pair: Pair) -> None:
    pair.create("produced", partitions=2)
    for acks in (1, -1):
        data = [partition_data("produced", 0, batch(3))]
        pair.ask("Produce", f"acks={acks}", acks=acks, timeout_ms=5000, topic_data=data)
    for codec in range(1, 5):
        data = [partition_data("produced", 1, batch(30, codec=codec))]
        pair.ask("Produce", f"codec {codec}", acks=1, timeout_ms=5000, topic_data=data,
                 versions=range(7, 14))  # fmt: skip
    read_back(pair, "produced")
    read_back(pair, "produced", partition=1)


def test_acks_zero_gets_no_answer(pair: Pair) -> None:
    pair.create("silent")
    data = [partition_data("silent", 0, batch())]
    pair.ask("Produce", "acks=0", acks=0, timeout_ms=5000, topic_data=data, answered=False)
    read_back(pair, "silent")
    bad = [partition_data("silent", 9, batch())]
    pair.ask("Produce", "acks=0 to nowhere", acks=0, timeout_ms=5000, topic_data=bad,
             answered=False, versions=SOME)  # fmt: skip


@pytest.mark.parametrize("acks", [2, -2, 100, 32767])
def test_acks_that_are_none(acks: int, pair: Pair) -> None:
    data = [partition_data("plain", 0, batch())]
    pair.ask("Produce", f"acks={acks}", acks=acks, timeout_ms=5000, topic_data=data)


def test_partitions_that_are_not_there(pair: Pair) -> None:
    for partition in (4, -1, 2**31 - 1):
        data = [partition_data("plain", partition, batch())]
        pair.ask("Produce", f"partition {partition}", acks=1, timeout_ms=5000, topic_data=data)
    nowhere = {"name": "nowhere", "topic_id": "zzzzzzzzzzzzzzzzzzzzzA",
               "partition_data": [{"index": 0, "records": batch()}]}  # fmt: skip
    pair.ask("Produce", "an unknown topic", acks=1, timeout_ms=5000, topic_data=[nowhere])
    pair.ask("Produce", "an unknown topic without acks", acks=0, timeout_ms=5000,
             topic_data=[nowhere], answered=False, versions=SOME)  # fmt: skip
    no_id = {"name": "", "partition_data": [{"index": 0, "records": batch()}]}
    pair.ask("Produce", "neither name nor id", acks=1, timeout_ms=5000, topic_data=[no_id])
    pair.ask("Produce", "no topics", acks=1, timeout_ms=5000, topic_data=[], versions=SOME)


def test_good_and_bad_partitions_of_one_request(pair: Pair) -> None:
    pair.create("mixed", partitions=2)
    data = partition_data("mixed", 0, batch())
    data["partition_data"] += [
        {"index": 1, "records": altered(batch(), CRC, "i", 7, resealed=False)},
        {"index": 5, "records": batch()},
    ]
    pair.ask("Produce", "good and bad", acks=-1, timeout_ms=5000, topic_data=[data])
    read_back(pair, "mixed")
    read_back(pair, "mixed", partition=1)


def test_the_same_partition_twice_in_one_request(pair: Pair) -> None:
    pair.create("twice")
    data = partition_data("twice", 0, batch())
    data["partition_data"] += [{"index": 0, "records": batch(2)}]
    pair.ask("Produce", "a partition twice", acks=-1, timeout_ms=5000, topic_data=[data],
             versions=SOME)  # fmt: skip


BAD_RECORDS = {
    "null": None,
    "nothing": b"",
    "half a header": batch()[:30],
    "a cut batch": batch()[:-1],
    "bytes after the batch": batch() + b"\x00" * 5,
    "two batches": batch() + batch(),
    "a wrong CRC": altered(batch(), CRC, "i", 12345, resealed=False),
    "a wrong CRC of a compressed batch": altered(
        batch(5, codec=1), CRC, "i", 12345, resealed=False
    ),
    "magic 3": altered(batch(), MAGIC, "b", 3),
    "magic -1": altered(batch(), MAGIC, "b", -1),
    "magic 1": altered(batch(), MAGIC, "b", 1),
    "magic 0": altered(batch(), MAGIC, "b", 0),
    "codec 5": altered(batch(), ATTRIBUTES, "h", 5),
    "codec 7": altered(batch(), ATTRIBUTES, "h", 7),
    "a control batch": altered(batch(), ATTRIBUTES, "h", 0x20),
    "a transactional batch without a producer": altered(batch(), ATTRIBUTES, "h", 0x10),
    "attributes that are not used": altered(batch(), ATTRIBUTES, "h", 0x4000),
    "the broker's timestamp type": altered(batch(), ATTRIBUTES, "h", 0x08),
    "a delete horizon": altered(batch(), ATTRIBUTES, "h", 0x40),
    "a count too large": altered(batch(3), COUNT, "i", 4),
    "a count too small": altered(batch(3), COUNT, "i", 2),
    "a count of zero": altered(batch(3), COUNT, "i", 0),
    "a negative count": altered(batch(3), COUNT, "i", -1),
    "the largest count": altered(batch(3), COUNT, "i", 2**31 - 1),
    "a last delta too large": altered(batch(3), LAST_DELTA, "i", 3),
    "a last delta too small": altered(batch(3), LAST_DELTA, "i", 1),
    "a negative last delta": altered(batch(3), LAST_DELTA, "i", -1),
    "a length of zero": altered(batch(), 8, "i", 0),
    "a negative length": altered(batch(), 8, "i", -5),
    "a length too large": altered(batch(), 8, "i", 5000),
    "the largest length": altered(batch(), 8, "i", 2**31 - 1),
    "a base offset of its own": altered(batch(), 0, "q", 55),
    "a negative base offset": altered(batch(), 0, "q", -55),
    "a leader epoch of its own": altered(batch(), 12, "i", 77),
    "compressed garbage": altered(batch(5), ATTRIBUTES, "h", 1),
    "snappy garbage": altered(batch(5), ATTRIBUTES, "h", 2),
    "lz4 garbage": altered(batch(5), ATTRIBUTES, "h", 3),
    "zstd garbage": altered(batch(5), ATTRIBUTES, "h", 4),
    "records without a key": batch(2, key=None),
    "a wrong record length": altered(batch(1), 61, "b", 4),
    "a negative record length": altered(batch(1), 61, "b", 1),
    "an odd timestamp delta": altered(batch(1), 63, "b", 2),
    "a wrong offset delta": altered(batch(1), 64, "b", 2),
    "a wrong key length": altered(batch(1), 65, "b", 126),
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_records_as_they_should_not_be(what: str, pair: Pair) -> None:
    topic = "bad-" + what.replace(" ", "-").replace("'", "")
    pair.create(topic)
    pair.produce(topic, batch())
    data = [partition_data(topic, 0, BAD_RECORDS[what])]
    pair.ask("Produce", what, acks=-1, timeout_ms=5000, topic_data=data, versions=SOME)
    read_back(pair, topic)


def test_what_a_topic_asks_of_its_records(pair: Pair) -> None:
    small = [partition_data("small", 0, batch(1, size=2000))]
    pair.ask("Produce", "too large for the topic", acks=-1, timeout_ms=5000, topic_data=small)
    for key in (None, b"k"):
        data = [partition_data("compacted", 0, batch(2, key=key))]
        pair.ask("Produce", f"key {key!r} where it is compacted", acks=1, timeout_ms=5000,
                 topic_data=data)  # fmt: skip
    some_keys = build_batch(
        [Record(key=k, value=b"v", timestamp=BASE_TIME) for k in (b"a", None, b"b", None)]
    )
    data = [partition_data("compacted", 0, some_keys)]
    pair.ask("Produce", "some records without a key", acks=1, timeout_ms=5000, topic_data=data)
    data = [partition_data("append-time", 0, batch(3))]
    pair.ask("Produce", "the broker's time", acks=1, timeout_ms=5000, topic_data=data)
    for codec in (0, 1, 3):
        data = [partition_data("codec", 0, batch(10, codec=codec))]
        pair.ask("Produce", f"codec {codec} where the topic wants gzip", acks=1, timeout_ms=5000,
                 topic_data=data)  # fmt: skip


def test_timestamps_out_of_bounds(pair: Pair) -> None:
    pair.create("bounded", message_timestamp_before_max_ms="1000")
    data = [partition_data("bounded", 0, batch(3))]
    pair.ask("Produce", "too long ago", acks=1, timeout_ms=5000, topic_data=data)
    future = 4_102_444_800_000
    data = [partition_data("plain", 2, batch(2, time=future))]
    pair.ask("Produce", "too far ahead", acks=1, timeout_ms=5000, topic_data=data)
    negative = build_batch([Record(key=b"k", value=b"v", timestamp=-1)])
    pair.create("timeless")
    data = [partition_data("timeless", 0, negative)]
    pair.ask("Produce", "no timestamp", acks=1, timeout_ms=5000, topic_data=data, versions=SOME)
    read_back(pair, "timeless")


def test_sequences_of_an_idempotent_producer(pair: Pair) -> None:
    pair.create("sequences")

    def send(
        what: str, sequence: int, *, count: int = 1, epoch: int = 0, producer: int = 9000
    ) -> None:
        data = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        pair.ask("Produce", what, acks=-1, timeout_ms=5000, versions=[9],
                 topic_data=[partition_data("sequences", 0, data)])  # fmt: skip

    send("the first", 0, count=2)
    send("the first again", 0, count=2)
    send("the next", 2)
    for n in range(3, 9):
        send(f"number {n}", n)
    send("one of the last five again", 5)
    send("one long ago", 0, count=2)
    send("one long ago, of other size", 2, count=5)
    send("a gap", 50)
    send("backwards", 1)
    send("a new epoch that does not begin at zero", 3, epoch=1)
    send("a new epoch", 0, epoch=1)
    send("the old epoch", 9, epoch=0)
    send("a producer that begins in the middle", 7, producer=9001)
    send("a negative sequence", -1, producer=9002)
    send("the largest sequence", 2**31 - 1, producer=9003)
    send("after the largest sequence", 0, producer=9003)
    send("no epoch", 0, epoch=-1, producer=9004)
    read_back(pair, "sequences")


def test_transactions_that_are_not_open(pair: Pair) -> None:
    pair.create("transactional")
    data = batch(transactional=True, producer_id=9100, producer_epoch=0, base_sequence=0)
    pair.ask("Produce", "no transactional id", acks=-1, timeout_ms=5000, versions=SOME,
             topic_data=[partition_data("transactional", 0, data)])  # fmt: skip


def test_the_body_that_is_known_to_kill(pair: Pair) -> None:
    frame = raw_frame("Produce", 11, bytes.fromhex("00ffff00007530ffffffff0f"))
    pair.send_raw("Produce", 11, "twelve bytes", frame)
