import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from ottla.client.metadata import PartitionMetadata, TopicMetadata
from ottla.client.partitioner import StickyPartitioner, partition_of_key
from ottla.common.chance import Chance
from ottla.common.murmur import murmur2


@given(st.binary(max_size=64))
def test_the_hash_is_that_of_another_client(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_java(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of_key(key, 7) == (hashed & 0x7FFFFFFF) % 7


def topic(leaders: dict[int, int]) -> TopicMetadata:
    partitions = {
        index: PartitionMetadata(index, leader, 0, [], [], [], 0)
        for index, leader in leaders.items()
    }
    return TopicMetadata("t", bytes(16), internal=False, partitions=partitions, error_code=0)


def test_records_without_a_key_stay_until_the_batch_is_full() -> None:
    partitioner = StickyPartitioner(Chance(7))
    known = topic(dict.fromkeys(range(50), 1))
    first = partitioner.partition(known)
    assert {partitioner.partition(known) for _ in range(100)} == {first}
    seen = {first}
    for _ in range(100):
        partitioner.batch_is_full("t", partitioner.partition(known))
        seen.add(partitioner.partition(known))
    assert len(seen) > 20


def test_another_partition_that_is_full_changes_nothing() -> None:
    partitioner = StickyPartitioner(Chance(7))
    known = topic(dict.fromkeys(range(50), 1))
    first = partitioner.partition(known)
    partitioner.batch_is_full("t", first + 1)
    assert partitioner.partition(known) == first


def test_partitions_without_a_leader_are_not_drawn_unless_all_are() -> None:
    partitioner = StickyPartitioner(Chance(7))
    for _ in range(50):
        assert partitioner.partition(topic({0: -1, 1: 5, 2: -1})) == 1
        partitioner.batch_is_full("t", 1)
    assert partitioner.partition(topic({0: -1, 1: -1})) in (0, 1)
