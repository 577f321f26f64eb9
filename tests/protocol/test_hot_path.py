"""The hand-written codecs of Produce and Fetch say what the generated ones say, byte for byte.

Random messages of every version go through both. Then the same bytes are cut at every place and
spoilt by hostile lengths: only the errors that the dispatcher takes for a broken protocol may
come out, and nothing is made of a length that is not covered by the frame.
"""

from contextlib import suppress
from struct import error as StructError  # noqa: N812 - it is one
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.buffers import Answer
from ottla.common.errors import ProtocolViolation
from ottla.protocol.fetch_response import FetchedPartition, NodeEndpoint, encode_fetch_response
from ottla.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.generated.fetch import LeaderIdAndEpoch as FetchLeader
from ottla.protocol.generated.fetch import NodeEndpoint as FetchEndpoint
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.message import to_bytes
from ottla.protocol.produce_request import read_produce_request, skip_tagged_fields
from ottla.protocol.produce_response import Appended, encode_appended

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
FLEXIBLE_PRODUCE = 9
FLEXIBLE_FETCH = 12
TOPIC_IDS = 13
BROKEN = (ProtocolViolation, IndexError, StructError, UnicodeDecodeError)

int16 = st.integers(-(1 << 15), (1 << 15) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text(max_size=200)
topic_ids = st.binary(min_size=16, max_size=16)
tags = st.none() | st.lists(
    st.tuples(st.integers(0, 1 << 20), st.binary(max_size=200)),
    min_size=1,
    max_size=3,
    unique_by=lambda field: field[0],
).map(sorted)


class MemoryRegion:
    """Records that lie in a file, here in memory."""

    def __init__(self, data: bytes) -> None:
        self.file = self
        self.position = 0
        self.size = len(data)
        self._data = data

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]


def joined(answer: Answer) -> bytes:
    """The answer as it goes over the wire."""
    if isinstance(answer, bytes):
        return answer
    return b"".join(
        part if isinstance(part, bytes) else part.file.read_at(part.position, part.size)
        for part in answer
    )


def framed(body: bytes, correlation_id: int, *, flexible: bool) -> bytes:
    header = pack(">i", correlation_id) + (b"\x00" if flexible else b"")
    return pack(">i", len(header) + len(body)) + header + body


# Produce requests


@st.composite
def produce_requests(draw: st.DrawFn) -> tuple[ProduceRequest, int]:
    version = draw(st.sampled_from(PRODUCE_VERSIONS))
    spare_tags = tags if version >= FLEXIBLE_PRODUCE else st.none()
    topics = []
    for _ in range(draw(st.integers(0, 3))):
        topic = TopicProduceData(unknown_tagged_fields=draw(spare_tags))
        if version >= TOPIC_IDS:
            topic.topic_id = draw(topic_ids)
        else:
            topic.name = draw(names)
        topic.partition_data = [
            PartitionProduceData(
                index=draw(int32),
                records=draw(st.none() | st.binary(max_size=300)),
                unknown_tagged_fields=draw(spare_tags),
            )
            for _ in range(draw(st.integers(0, 3)))
        ]
        topics.append(topic)
    request = ProduceRequest(
        transactional_id=draw(st.none() | names),
        acks=draw(int16),
        timeout_ms=draw(int32),
        topic_data=topics,
        unknown_tagged_fields=draw(spare_tags),
    )
    return request, version


@given(produce_requests(), st.binary(max_size=20))
def test_a_produce_request_is_read_as_the_generated_codec_wrote_it(
    written: tuple[ProduceRequest, int], header: bytes
) -> None:
    request, version = written
    frame = memoryview(bytearray(header + to_bytes(request, version)))
    view = read_produce_request(frame, len(header), version)
    assert view.transactional_id == request.transactional_id
    assert (view.acks, view.timeout_ms) == (request.acks, request.timeout_ms)
    read = [
        (
            topic,
            [
                (index, None if start < 0 else bytes(frame[start:end]))
                for index, start, end in partitions
            ],
        )
        for topic, partitions in view.topics
    ]
    assert read == [
        (
            topic.topic_id if version >= TOPIC_IDS else topic.name,
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in request.topic_data
    ]


@given(produce_requests(), st.data())
def test_a_produce_request_that_is_cut_anywhere_is_a_broken_protocol(
    written: tuple[ProduceRequest, int], data: st.DataObject
) -> None:
    request, version = written
    whole = to_bytes(request, version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BROKEN):
        read_produce_request(memoryview(whole[:cut]), 0, version)


@given(produce_requests(), st.binary(min_size=1, max_size=8))
def test_bytes_behind_a_produce_request_are_not_looked_at(
    written: tuple[ProduceRequest, int], rest: bytes
) -> None:
    request, version = written
    whole = to_bytes(request, version)
    longer = read_produce_request(memoryview(whole + rest), 0, version)
    assert longer == read_produce_request(memoryview(whole), 0, version)


@given(produce_requests(), st.data())
def test_a_produce_request_with_one_spoilt_byte_is_read_or_refused_but_stays_in_its_frame(
    written: tuple[ProduceRequest, int], data: st.DataObject
) -> None:
    request, version = written
    spoilt = bytearray(to_bytes(request, version))
    at = data.draw(st.integers(0, len(spoilt) - 1))
    spoilt[at] = data.draw(st.integers(0, 255))
    try:
        view = read_produce_request(memoryview(spoilt), 0, version)
    except BROKEN:
        return
    for _, partitions in view.topics:
        for _, start, end in partitions:
            assert (start, end) == (-1, -1) or 0 <= start <= end <= len(spoilt)


@given(st.sampled_from(PRODUCE_VERSIONS), st.binary(max_size=60))
def test_noise_is_never_more_than_a_broken_protocol(version: int, noise: bytes) -> None:
    with suppress(*BROKEN):
        read_produce_request(memoryview(noise), 0, version)


HOSTILE_LENGTHS = (-2, -(1 << 31), (1 << 31) - 1, 1 << 20)


@pytest.mark.parametrize("length", HOSTILE_LENGTHS)
def test_no_array_or_record_length_of_the_old_versions_is_believed(length: int) -> None:
    before = b"\xff\xff" + pack(">hi", 1, 1000)
    topics = before + pack(">i", length)
    partitions = before + pack(">i", 1) + b"\x00\x01t" + pack(">i", length)
    records = before + pack(">i", 1) + b"\x00\x01t" + pack(">iii", 1, 0, length)
    for frame in (topics, partitions, records):
        with pytest.raises(ProtocolViolation):
            read_produce_request(memoryview(frame), 0, 7)


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x01"])
def test_no_compact_length_is_believed(length: bytes, version: int) -> None:
    before = b"\x00" + pack(">hi", 1, 1000)
    topic = bytes(16) if version >= TOPIC_IDS else b"\x02t"
    topics = before + length
    partitions = before + b"\x02" + topic + length
    records = before + b"\x02" + topic + b"\x02" + pack(">i", 0) + length
    transactional_id = length
    for frame in (topics, partitions, records, transactional_id):
        with pytest.raises(ProtocolViolation):
            read_produce_request(memoryview(frame), 0, version)


def test_the_frame_that_is_known_to_have_killed_a_broker_is_refused() -> None:
    with pytest.raises(BROKEN):
        read_produce_request(memoryview(bytes.fromhex("00ffff00007530ffffffff0f")), 0, 11)


@pytest.mark.parametrize("varint", [b"\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x10"])
def test_a_varint_of_more_than_32_bits_is_refused(varint: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        skip_tagged_fields(memoryview(varint + bytes(8)), 0)


def test_a_null_array_or_name_is_refused_where_it_must_not_be() -> None:
    before = b"\x00" + pack(">hi", 1, 1000)
    for frame in (before + b"\x00\x00", before + b"\x02\x00\x01\x00\x00"):
        with pytest.raises(ProtocolViolation):
            read_produce_request(memoryview(frame), 0, 9)


# Produce responses


appended = st.tuples(int32, int64, int64, int64)


@st.composite
def appended_topics(
    draw: st.DrawFn,
) -> tuple[int, list[tuple[str | bytes, list[Appended]]]]:
    version = draw(st.sampled_from(PRODUCE_VERSIONS))
    topic: st.SearchStrategy[str | bytes] = topic_ids if version >= TOPIC_IDS else names
    topics = draw(st.lists(st.tuples(topic, st.lists(appended, max_size=3)), max_size=3))
    return version, topics


@given(appended_topics(), int32)
def test_a_produce_answer_equals_the_generated_one(
    answered: tuple[int, list[tuple[str | bytes, list[Appended]]]], correlation_id: int
) -> None:
    version, topics = answered
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else bytes(16),
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        base_offset=base_offset,
                        log_append_time_ms=append_time,
                        log_start_offset=log_start_offset,
                    )
                    for index, base_offset, append_time, log_start_offset in partitions
                ],
            )
            for topic, partitions in topics
        ]
    )
    expected = framed(
        to_bytes(response, version), correlation_id, flexible=version >= FLEXIBLE_PRODUCE
    )
    assert encode_appended(correlation_id, version, topics) == expected


# Fetch responses


class Fetched:
    """One random partition, in both forms."""

    def __init__(self, draw: st.DrawFn, version: int) -> None:
        self.data = PartitionData(
            partition_index=draw(int32),
            error_code=draw(int16),
            high_watermark=draw(int64),
            last_stable_offset=draw(int64),
            log_start_offset=draw(int64),
        )
        data = self.data
        self.fetched = FetchedPartition(
            data.partition_index,
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
        )
        self._draw_aborted(draw)
        self._draw_records(draw)
        if version >= 11:
            data.preferred_read_replica = self.fetched.preferred_read_replica = draw(int32)
        if version >= FLEXIBLE_FETCH:
            self._draw_tags(draw)

    def _draw_aborted(self, draw: st.DrawFn) -> None:
        aborted = draw(st.none() | st.lists(st.tuples(int64, int64), max_size=3))
        self.fetched.aborted = aborted
        self.data.aborted_transactions = (
            None
            if aborted is None
            else [AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted]
        )

    def _draw_records(self, draw: st.DrawFn) -> None:
        records = draw(st.none() | st.binary(max_size=300))
        in_file = draw(st.booleans())
        self.data.records = records
        self.fetched.records = MemoryRegion(records) if in_file and records is not None else records

    def _draw_tags(self, draw: st.DrawFn) -> None:
        # (-1, -1) is the default, and no tag is written for it by either.
        diverging = draw(st.none() | st.tuples(st.integers(0, 1 << 30), int64))
        if diverging is not None:
            self.fetched.diverging_epoch = diverging
            self.data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        leader = draw(st.none() | st.tuples(st.integers(0, 1 << 30), int32))
        if leader is not None:
            self.fetched.current_leader = leader
            self.data.current_leader = FetchLeader(leader_id=leader[0], leader_epoch=leader[1])


@st.composite
def fetch_answers(draw: st.DrawFn) -> tuple[int, int, bytes, bytes]:
    version = draw(st.sampled_from(FETCH_VERSIONS))
    correlation_id = draw(int32)
    response = FetchResponse()
    if version >= 7:
        response.error_code = draw(int16)
        response.session_id = draw(int32)
    topics: list[tuple[str | bytes, list[FetchedPartition]]] = []
    for _ in range(draw(st.integers(0, 3))):
        partitions = [Fetched(draw, version) for _ in range(draw(st.integers(0, 3)))]
        topic: str | bytes = draw(topic_ids) if version >= TOPIC_IDS else draw(names)
        topics.append((topic, [partition.fetched for partition in partitions]))
        response.responses.append(
            FetchableTopicResponse(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else bytes(16),
                partitions=[partition.data for partition in partitions],
            )
        )
    endpoints = []
    if version >= 16:
        endpoint = st.builds(NodeEndpoint, int32, names, int32, st.none() | names)
        endpoints = draw(st.lists(endpoint, max_size=2, unique_by=lambda e: e.node_id))
        response.node_endpoints = [
            FetchEndpoint(node_id=e.node_id, host=e.host, port=e.port, rack=e.rack)
            for e in endpoints
        ]
    answer = encode_fetch_response(
        correlation_id,
        version,
        topics,
        error_code=response.error_code,
        session_id=response.session_id,
        endpoints=endpoints,
    )
    expected = framed(
        to_bytes(response, version), correlation_id, flexible=version >= FLEXIBLE_FETCH
    )
    return version, correlation_id, joined(answer), expected


@given(fetch_answers())
def test_a_fetch_answer_equals_the_generated_one(answers: tuple[int, int, bytes, bytes]) -> None:
    *_, hot, generated = answers
    assert hot == generated


def test_records_in_a_file_stay_there() -> None:
    region = MemoryRegion(b"r" * 100_000)
    partition = FetchedPartition(0, records=region)
    answer = encode_fetch_response(1, 18, [(bytes(16), [partition])])
    assert not isinstance(answer, bytes)
    assert [part for part in answer if not isinstance(part, bytes)] == [region]


def test_an_answer_without_records_is_one_piece() -> None:
    answer = encode_fetch_response(1, 18, [(bytes(16), [FetchedPartition(0, records=b"")])])
    assert isinstance(answer, bytes)
