"""The hand-written reader of Fetch answers finds what the generated codec finds, or refuses."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import ProtocolViolation
from ottla.protocol.fetch_answer import FetchedRecords, read_fetch_answer
from ottla.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.message import to_bytes

VERSIONS = range(13, 19)
HEADER = b"\x00\x00\x00\x07\x00"
"""Correlation id and tagged fields, which the reader is told to pass over."""

int16 = st.integers(-(1 << 15), (1 << 15) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
tags = st.none() | st.lists(
    st.tuples(st.integers(10, 1 << 20), st.binary(max_size=200)),
    min_size=1,
    max_size=3,
    unique_by=lambda field: field[0],
).map(sorted)

partitions = st.builds(
    PartitionData,
    partition_index=int32,
    error_code=int16,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    diverging_epoch=st.just(EpochEndOffset())
    | st.builds(EpochEndOffset, epoch=int32, end_offset=int64, unknown_tagged_fields=tags),
    current_leader=st.just(LeaderIdAndEpoch())
    | st.builds(LeaderIdAndEpoch, leader_id=int32, leader_epoch=int32),
    aborted_transactions=st.none()
    | st.lists(
        st.builds(
            AbortedTransaction, producer_id=int64, first_offset=int64, unknown_tagged_fields=tags
        ),
        max_size=3,
    ),
    preferred_read_replica=int32,
    records=st.none() | st.binary(max_size=300),
    unknown_tagged_fields=tags,
)
answers = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=int16,
    session_id=int32,
    responses=st.lists(
        st.builds(
            FetchableTopicResponse,
            topic_id=st.binary(min_size=16, max_size=16),
            partitions=st.lists(partitions, max_size=4),
            unknown_tagged_fields=tags,
        ),
        max_size=3,
    ),
    unknown_tagged_fields=tags,
)


def seen(fetched: FetchedRecords) -> tuple[object, ...]:
    return (
        fetched.topic_id,
        fetched.partition,
        fetched.error_code,
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start_offset,
        fetched.aborted,
        (fetched.diverging_epoch, fetched.diverging_end),
        bytes(fetched.records),
    )


@given(answers, st.sampled_from(VERSIONS), st.booleans())
def test_it_reads_what_the_generated_codec_has_written(
    answer: FetchResponse, version: int, has_endpoints: bool
) -> None:
    if has_endpoints and version >= 16:
        answer.node_endpoints = [NodeEndpoint(node_id=1, host="a", port=9092)]
    frame = memoryview(HEADER + to_bytes(answer, version))
    read = read_fetch_answer(frame, len(HEADER), version)
    assert (read.throttle_time_ms, read.error_code, read.session_id) == (
        answer.throttle_time_ms,
        answer.error_code,
        answer.session_id,
    )
    assert [seen(each) for each in read.partitions] == [
        (
            topic.topic_id,
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            [(one.producer_id, one.first_offset) for one in each.aborted_transactions or ()],
            (each.diverging_epoch.epoch, each.diverging_epoch.end_offset),
            each.records or b"",
        )
        for topic in answer.responses
        for each in topic.partitions
    ]


@given(answers, st.data())
def test_what_is_cut_or_spoilt_is_refused_and_nothing_else(
    answer: FetchResponse, data: st.DataObject
) -> None:
    encoded = to_bytes(answer, 17)
    with pytest.raises(ProtocolViolation):
        read_fetch_answer(memoryview(encoded)[: data.draw(st.integers(0, len(encoded) - 1))], 0, 17)
    spoilt = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolViolation):
        read = read_fetch_answer(memoryview(bytes(spoilt)), 0, 17)
        assert sum(len(each.records) for each in read.partitions) <= len(spoilt)


def test_versions_without_topic_ids_are_refused() -> None:
    with pytest.raises(ProtocolViolation, match="topic ids"):
        read_fetch_answer(memoryview(to_bytes(FetchResponse(), 12)), 0, 12)


def test_records_are_not_copied() -> None:
    partition = PartitionData(partition_index=0, high_watermark=0, records=b"r" * 1000)
    topic = FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
    frame = memoryview(to_bytes(FetchResponse(responses=[topic]), 18))
    assert read_fetch_answer(frame, 0, 18).partitions[0].records.obj is frame.obj
