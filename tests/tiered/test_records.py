"""The records of the metadata topic, against bytes that Apache Kafka's own classes wrote."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.tiered.histories import DELETED, DELETING, FINISHED, PARTITION, segment, update

from ottla.common.errors import ProtocolViolation
from ottla.common.identifiers import uuid_from_text
from ottla.tiered.records import decode, encode, metadata_partition
from ottla.tiered.segments import (
    DeleteState,
    PartitionDeletion,
    RemoteLogMetadata,
    TopicIdPartition,
)

ORDERS_3 = "076f7264657273000102030405060708090a0b0c0d0e0f0000000300"
SEGMENT_1 = "000000000000000000000000000000c900"
SEGMENT_2 = "000000000000000000000000000000ca00"
BODY_1 = (
    "000000000000006400000000000000c70000000100000000000003e8000000000000138803000000020000000000"
    "000064000000000500000000000000960000000064000000"
)
BODY_2 = (
    "000000000000000000000100000000000000000100000000000003e8000000000000138802000000000000000000"
    "000000007fffffff0677686572650001000101"
)
# Written by RemoteLogMetadataSerde of Apache Kafka 4.3.1; test_kafka_peer asks it again.
BY_APACHE: list[tuple[str, RemoteLogMetadata]] = [
    (
        f"010000{ORDERS_3}{SEGMENT_1}{BODY_1}",
        segment(1, 100, 199, {2: 100, 5: 150}),
    ),
    (
        f"010000{ORDERS_3}{SEGMENT_2}{BODY_2}",
        segment(2, 0, 1 << 40, size=(1 << 31) - 1)._replace(
            transaction_index_empty=True, custom_metadata=b"where"
        ),
    ),
    (
        f"010100{ORDERS_3}{SEGMENT_1}000000010000000000001770030001" + "0100",
        update(1, FINISHED)._replace(custom_metadata=b"\0\1"),
    ),
    (f"010100{ORDERS_3}{SEGMENT_1}000000010000000000001770000200", update(1, DELETING)),
    (f"010100{ORDERS_3}{SEGMENT_1}000000010000000000001770000300", update(1, DELETED)),
    *(
        (
            f"010200{ORDERS_3}000000020000000000001b58{state:02x}00",
            PartitionDeletion(PARTITION, state, 7_000, 2),
        )
        for state in DeleteState
    ),
]
# By RemoteLogMetadataTopicPartitioner: topic id, partition, partitions of the topic, the choice.
CHOICES = [
    ("9bFlIkpYt5HfavHYMD5hzQ", 782, 1, 0),
    ("0cQnEDw0TEGJ6y8ee9XUfg", 779, 3, 0),
    ("o9gRc2EQ5XgbzM6mlnYuYQ", 807, 50, 11),
    ("LZm_NYwuBxiCLOR8qMdBBw", 914, 50, 37),
    ("srP01Y2CymOG0sludg6Bmw", 780, 50, 37),
    ("WXFkxKYFigBYGiKyLeUEcg", 272, 1000, 482),
]


@pytest.mark.parametrize(("value", "record"), BY_APACHE)
def test_a_record_has_the_bytes_that_apache_writes(value: str, record: RemoteLogMetadata) -> None:
    assert encode(record).hex() == value
    assert decode(bytes.fromhex(value)) == record


@pytest.mark.parametrize(("topic_id", "partition", "count", "choice"), CHOICES)
def test_a_partition_is_told_of_where_apache_tells_of_it(
    topic_id: str, partition: int, count: int, choice: int
) -> None:
    owner = TopicIdPartition(uuid_from_text(topic_id), "any", partition)
    assert metadata_partition(owner, count) == choice


WHOLE = bytes.fromhex(BY_APACHE[0][0])


@given(
    st.one_of(
        st.binary(max_size=40),
        st.integers(0, len(WHOLE) - 1).map(lambda size: WHOLE[:size]),
        st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)).map(
            lambda change: WHOLE[: change[0]] + bytes([change[1]]) + WHOLE[change[0] + 1 :]
        ),
    )
)
@example(b"\1\3\0" + bytes(80))
@example(b"\2" + WHOLE[1:])
@example(WHOLE[:2] + b"\1" + WHOLE[3:])
@example(WHOLE + b"\0")
def test_bytes_that_are_no_record_are_refused_and_nothing_else(value: bytes) -> None:
    try:
        record = decode(value)
    except ProtocolViolation:
        return
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    "wrong",
    [
        segment(1, 100, 99),
        segment(1, -1, 99),
        segment(1, 0, 9)._replace(leader_epochs=()),
    ],
)
def test_a_segment_without_offsets_or_epochs_is_refused(wrong: RemoteLogMetadata) -> None:
    with pytest.raises(ProtocolViolation):
        decode(encode(wrong))
