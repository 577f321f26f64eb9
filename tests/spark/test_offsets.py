"""Offsets in the JSON of spark-sql-kafka, and how partitions are split into ranges."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.common.topic_partition import TopicPartition
from ottla.spark.source.offsets import from_json, to_json, topic_ids_of
from ottla.spark.source.ranges import OffsetRange, plan

names = st.text("abcXYZ._-09", min_size=1, max_size=6)
offsets = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 12)), st.integers(0, 1 << 60), max_size=12
)


ids = st.dictionaries(names, st.binary(min_size=16, max_size=16), max_size=6)


@given(offsets, ids)
def test_offsets_come_back_from_their_json_and_of_which_topics_they_are(
    known: dict[TopicPartition, int], topic_ids: dict[str, bytes]
) -> None:
    shape = json.loads(json.dumps(to_json(known, topic_ids)))
    assert from_json(shape) == known
    named = {each.topic for each in known}
    assert topic_ids_of(shape) == {name: it for name, it in topic_ids.items() if name in named}
    assert {name: parts for name, parts in shape.items() if parts} == to_json(known)


def test_it_is_the_connectors_json_with_partitions_in_the_order_of_their_numbers() -> None:
    known = {
        TopicPartition("b", 10): 3,
        TopicPartition("b", 9): 2,
        TopicPartition("a", 0): 1,
    }
    text = json.dumps(to_json(known), separators=(",", ":"))
    assert text == '{"a":{"0":1},"b":{"9":2,"10":3}}'
    shuffled = dict(reversed(list(known.items())))
    assert json.dumps(to_json(shuffled)) == json.dumps(to_json(known))


def of(start: int, end: int, partition: int = 0, record_bytes: float = 0.0) -> OffsetRange:
    return OffsetRange("t", b"i" * 16, partition, start, end, record_bytes)


ranges = st.lists(
    st.builds(
        of,
        st.integers(0, 50),
        st.integers(0, 200),
        st.integers(0, 3),
        st.sampled_from([0.0, 1.0, 1000.0]),
    ),
    max_size=5,
)
limits = st.none() | st.integers(1, 60)


@given(ranges, limits, limits, st.none() | st.integers(1, 5_000))
def test_a_plan_covers_each_range_once_and_keeps_to_its_limits(
    wanted: list[OffsetRange], parts_min: int | None, records_max: int | None, bytes_max: int | None
) -> None:
    planned = plan(wanted, parts_min=parts_min, records_max=records_max, bytes_max=bytes_max)
    for each in planned:
        assert each.records > 0
        assert records_max is None or each.records <= records_max
    left = [each for each in wanted if each.records > 0]
    at = iter(planned)
    for whole in left:
        position = whole.start
        while position < whole.end:
            part = next(at)
            assert (part.partition, part.start) == (whole.partition, position)
            position = part.end
        assert position == whole.end
    assert next(at, None) is None


def test_parts_are_shared_out_as_the_connector_does_it() -> None:
    planned = plan([of(0, 1), of(0, 1, 1), of(0, 10_000, 2)], parts_min=6)
    assert [each.records for each in planned] == [1, 1, 2500, 2500, 2500, 2500]
    assert len(plan([of(0, 100), of(0, 100, 1)], parts_min=1)) == 2
    assert len(plan([of(0, 10)], records_max=4)) == 3


def test_a_partition_of_large_records_gets_the_more_parts() -> None:
    planned = plan([of(0, 100, 0, 10_000.0), of(0, 100, 1, 100.0)], parts_min=10)
    assert [each.partition for each in planned].count(0) == 9
    assert len(plan([of(0, 100, 0, 1_000.0)], bytes_max=25_000)) == 4
