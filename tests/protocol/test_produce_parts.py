"""A produce request in pieces is the one that the generated codec makes."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.primitives import Writer
from ottla.protocol.produce_parts import TOPIC_IDS, TopicBatches, produce_request_parts

API = APIS[ApiKey.PRODUCE]
VERSIONS = st.integers(API.lowest_version, API.highest_stable_version)
BATCHES = st.lists(st.tuples(st.integers(0, 1 << 31 - 1), st.binary(max_size=300)), max_size=4)
NAMED = st.lists(st.tuples(st.text(max_size=150), st.binary(min_size=16, max_size=16), BATCHES))


@given(VERSIONS, st.none() | st.text(max_size=20), st.integers(-1, 1), NAMED)
def test_the_pieces_are_what_the_generated_codec_writes(
    version: int,
    transactional_id: str | None,
    acks: int,
    named: list[tuple[str, bytes, list[tuple[int, bytes]]]],
) -> None:
    by_id = version >= TOPIC_IDS
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                **({"topic_id": topic_id} if by_id else {"name": name}),
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in batches
                ],
            )
            for name, topic_id, batches in named
        ],
    )
    out = Writer()
    request.encode(out, version)
    topics = [
        TopicBatches(
            topic_id if by_id else name, [(index, bytearray(data)) for index, data in batches]
        )
        for name, topic_id, batches in named
    ]
    parts = produce_request_parts(version, transactional_id, acks, 30_000, topics)
    assert b"".join(parts) == out.getvalue()
    assert parts[1::2] == [records for _, _, batches in named for _, records in batches]
