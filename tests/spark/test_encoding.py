"""Rows to batches: the same bytes as the plain builder's, in the partitions that Kafka chooses.

The plain builder of ``ottla.records`` is the reference; it goes record by record in Python.
"""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.metadata import PartitionMetadata, TopicMetadata
from ottla.client.partitioner import partition_of_key
from ottla.common.chance import Chance
from ottla.common.errors import (
    InvalidRecord,
    InvalidTopicException,
    MessageTooLarge,
    UnknownTopicOrPartition,
)
from ottla.common.murmur import murmur2
from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import read_header
from ottla.records.builder import BatchBuilder
from ottla.records.record import Record, iterate
from ottla.spark.codec import encoding_kernels as k
from ottla.spark.codec.encoding import BatchEncoder, Batching, EncodedBatch, ProducerIdentity
from ottla.spark.codec.rows import Rows, UnwritableTable
from ottla.spark.codec.schema import HEADERS

DAY_0 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NOW = 1_700_000_000_000
IDENTITY = ProducerIdentity(7, 3, transactional=True)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)

Row = dict[str, object]
contents = st.none() | st.binary(max_size=40)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": contents}), max_size=3
)
rows_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "key": contents,
            "value": contents,
            "headers": headers,
            "topic": st.sampled_from(["a", "b"]),
            "partition": st.none() | st.integers(0, 2),
            "timestamp": st.none()
            | st.datetimes(
                DAY_0.replace(tzinfo=None),
                DAY_0.replace(tzinfo=None, year=2100),
                timezones=st.just(dt.UTC),
            ),
        }
    ),
    max_size=30,
)


class FixedClock:
    def wall_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def topic(name: str, partitions: int = 3, led: int | None = None) -> TopicMetadata:
    if name == "nowhere":
        raise UnknownTopicOrPartition("topic nowhere: UNKNOWN_TOPIC_OR_PARTITION")
    count = partitions if led is None else led
    return TopicMetadata(
        name,
        bytes(16),
        False,
        {
            index: PartitionMetadata(index, 1 if index < count else -1, 0, [1], [1], [], 0)
            for index in range(partitions)
        },
        0,
    )


def encoder(
    batching: Batching | None = None, identity: ProducerIdentity = IDENTITY
) -> BatchEncoder:
    return BatchEncoder(
        batching or Batching(), identity, topic, clock=FixedClock(), chance=Chance(1)
    )


def encode(
    tables: list[pa.RecordBatch], batching: Batching | None = None, topic: str | None = None
) -> list[EncodedBatch]:
    made = encoder(batching)
    batches = [batch for table in tables for batch in made.encode(Rows(table, topic))]
    return batches + list(made.finish())


def table(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def stamp(row: Row) -> int:
    moment = row["timestamp"]
    if moment is None:
        return NOW
    assert isinstance(moment, dt.datetime)
    return (moment - DAY_0) // dt.timedelta(milliseconds=1)


def record(row: Row) -> tuple[object, ...]:
    listed = row["headers"] or []
    assert isinstance(listed, list)
    return stamp(row), row["key"], row["value"], [(each["key"], each["value"]) for each in listed]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(rows_drawn, max_size=3),
    st.integers(0, 4),
    st.integers(80, 400),
    st.integers(0, 3),
)
def test_batches_are_those_of_the_plain_builder(
    drawn: list[list[Row]], codec: int, batch_bytes: int, skipped: int
) -> None:
    tables = [table(rows).slice(skipped) for rows in drawn]
    drawn = [rows[skipped:] for rows in drawn]
    found: dict[TopicPartition, list[Record]] = {}
    sequences: Counter[TopicPartition] = Counter()
    for target, data, count, sequence in encode(tables, Batching(batch_bytes, codec)):
        records = iterate(data)
        builder = BatchBuilder()
        for each in records:
            builder.append(each.timestamp, each.key, each.value, each.headers)
        assert data == builder.build(
            codec=codec,
            producer_id=IDENTITY.producer_id,
            producer_epoch=IDENTITY.epoch,
            base_sequence=sequences[target],
            transactional=True,
        )
        assert builder.size <= batch_bytes or count == 1
        assert sequence == sequences[target]
        assert count == len(records)
        sequences[target] += count
        found.setdefault(target, []).extend(records)
    rows = [row for each in drawn for row in each]
    for name in ("a", "b"):
        for index in range(3):
            records = found.get(TopicPartition(name, index), [])
            got = [(each.timestamp, each.key, each.value, each.headers) for each in records]
            sure = [row for row in rows if row["topic"] == name and certain(row) == index]
            assert_in_order([record(row) for row in sure], got)
    everything = sorted(
        (name, repr((each.timestamp, each.key, each.value, each.headers)))
        for (name, _), records in found.items()
        for each in records
    )
    assert everything == sorted((str(row["topic"]), repr(record(row))) for row in rows)


def certain(row: Row) -> int | None:
    """The partition of a row, unless it goes by lot."""
    if row["partition"] is not None:
        return int(str(row["partition"]))
    key = row["key"]
    if key is None:
        return None
    assert isinstance(key, bytes)
    return partition_of_key(key, 3)


def assert_in_order(
    wanted: Sequence[tuple[object, ...]], got: Sequence[tuple[object, ...]]
) -> None:
    rest = iter(got)
    assert all(any(each == one for one in rest) for each in wanted), "lost, or in another order"


@settings(deadline=None)
@given(st.binary(max_size=30))
def test_the_hash_is_that_of_kafka(key: bytes) -> None:
    data = np.frombuffer(b"xx" + key, np.uint8)
    assert int(k.murmur2(data, 2, len(key))) == murmur2(key)


def test_strings_are_written_as_their_bytes_and_other_columns_are_nobodys_business() -> None:
    schema = pa.schema([("value", pa.string()), ("key", pa.large_string()), ("more", pa.int64())])
    (batch,) = encode([table([{"value": "ä", "key": "k", "more": 1}], schema)], topic="a")
    (found,) = iterate(batch.data)
    assert (found.key, found.value, found.timestamp) == (b"k", "ä".encode(), NOW)


def test_the_option_goes_before_the_column() -> None:
    rows: list[Row] = [{"value": b"1", "topic": "b", "timestamp": None}]
    (batch,) = encode([table(rows)], topic="a")
    assert batch.target.topic == "a"


def test_rows_without_a_key_stay_with_a_partition_for_a_batch_and_reach_all_that_are_led() -> None:
    rows: list[Row] = [{"value": bytes(50)} for _ in range(2000)]
    made = BatchEncoder(
        Batching(1000),
        IDENTITY,
        lambda name: topic(name, 5, led=4),
        clock=FixedClock(),
        chance=Chance(1),
    )
    batches = [*made.encode(Rows(table(rows), "a")), *made.finish()]
    per_partition = Counter(batch.target.partition for batch in batches)
    assert sorted(per_partition) == [0, 1, 2, 3]
    assert min(per_partition.values()) > 10
    assert len(batches) < 2000 * 80 / 1000, "batches are full"


def test_a_record_larger_than_a_batch_goes_alone_and_one_larger_than_a_request_is_refused() -> None:
    batching = Batching(100, request_bytes_max=500)
    rows: list[Row] = [{"value": bytes(size)} for size in (10, 300, 10)]
    batches = encode([table(rows)], batching, topic="a")
    assert sorted(len(iterate(batch.data)[0].value or b"") for batch in batches) == [10, 10, 300]
    with pytest.raises(
        MessageTooLarge, match=r"a-[012]: a record of 5\d\d bytes.*max.request.size"
    ):
        encode([table([{"value": bytes(500)}])], batching, topic="a")


def test_open_batches_of_many_partitions_take_bounded_memory() -> None:
    rows = Rows(table([{"value": bytes(100), "partition": i % 3} for i in range(30)]), "a")
    made = encoder(Batching(10_000, buffered_bytes_max=4_000))
    assert list(made.encode(rows)) == []
    batches = list(made.encode(rows))
    assert [batch.records for batch in batches] == [20, 20, 20]
    assert list(made.finish()) == []


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    made = encoder(Batching(100))
    rows = Rows(table([{"value": bytes(20), "partition": 0} for _ in range(4)]), "a")
    list(made.encode(rows))
    list(made.finish())
    made._sequences[0] = 2**31 - 1
    batches = [*made.encode(rows), *made.finish()]
    assert [batch.sequence for batch in batches[:2]] == [2**31 - 1, batches[0].records - 1]


def test_without_an_identity_there_are_no_sequences() -> None:
    made = encoder(identity=ProducerIdentity())
    list(made.encode(Rows(table([{"value": b"1"}]), "a")))
    (batch,) = made.finish()
    header = read_header(batch.data)
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (-1, -1, False)


@pytest.mark.parametrize(
    ("row", "kind", "text"),
    [
        ({"partition": 3}, UnknownTopicOrPartition, "row 1 .* partition 3 of topic a.* 0 to 2"),
        ({"partition": -1}, UnknownTopicOrPartition, "topic a"),
        ({"topic": None}, InvalidTopicException, "1 rows have no topic, the first is row 1"),
        ({"topic": "nowhere"}, UnknownTopicOrPartition, "topic nowhere"),
        ({"headers": [{"key": None, "value": b""}]}, InvalidRecord, "without a key"),
        ({"timestamp": dt.datetime(1969, 1, 1, tzinfo=dt.UTC)}, InvalidRecord, "before 1970"),
    ],
)
def test_a_row_that_cannot_be_written_is_refused_by_name(
    row: Row, kind: type[Exception], text: str
) -> None:
    good: Row = {"value": b"1", "topic": "a", "timestamp": None}
    with pytest.raises(kind, match=text):
        encode([table([good, {**good, **row}])])


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ([("key", pa.binary())], "needs a column value"),
        ([("value", pa.int64())], "column value is int64; it must be binary or string"),
        ([("value", pa.binary())], "option topic, or a column topic"),
        ([("value", pa.binary()), ("topic", pa.int32())], "column topic is int32"),
        (
            [("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int64())],
            "must be int",
        ),
        ([("value", pa.binary()), ("headers", pa.string())], "array<struct<key, value>>"),
        (
            [("value", pa.binary()), ("topic", pa.string()), ("timestamp", pa.int64())],
            "a timestamp",
        ),
    ],
)
def test_a_table_with_wrong_columns_is_refused_by_name(
    schema: list[tuple[str, pa.DataType]], text: str
) -> None:
    with pytest.raises(UnwritableTable, match=text):
        Rows(table([], pa.schema(schema)), None)


def test_a_kernel_is_compiled_once_whatever_columns_there_are() -> None:
    rows: list[Row] = [{"key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"x"}]}]
    made = pa.concat_batches([table(rows), table(rows)])  # memory of Arrow, which may be written to
    for each in (table(rows), made, table([{"value": b"v"}]), made.slice(1), table([])):
        encode([each], topic="a")
    kernels: list[Any] = [k.append, k.route, k.measure]
    assert [len(kernel.signatures) for kernel in kernels] == [1, 1, 1]
