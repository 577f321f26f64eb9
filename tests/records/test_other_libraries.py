"""Batches of other people's libraries are read alike by us, and ours by them."""

from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records as aio
import kafka.record.default_records as python
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.strategies import CODEC, HEADERS

from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.records.rules import AppendRules
from ottla.records.validation import validate

RECORDS = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=80),
        value=st.none() | st.binary(max_size=2000),
        timestamp=st.integers(0, 1 << 41),
        headers=HEADERS,
    ),
    min_size=1,
    max_size=70,
)
BUILDERS = [
    python.DefaultRecordBatchBuilder,
    aio._DefaultRecordBatchBuilderPy,
    aio._DefaultRecordBatchBuilderCython,
]
READERS = [python.DefaultRecordBatch, aio._DefaultRecordBatchPy, aio._DefaultRecordBatchCython]


@pytest.mark.parametrize("builder", BUILDERS)
@given(of=RECORDS, codec=CODEC)
def test_we_read_and_accept_what_they_build(
    builder: Callable[..., Any], of: list[Record], codec: int
) -> None:
    theirs = builder(2, codec, 1, 9, 3, 55, 1 << 24)
    for index, record in enumerate(of):
        record.offset = index
        theirs.append(
            index,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    batch = bytearray(theirs.build())
    assert iterate(batch) == of
    before = bytes(batch)
    rules = AppendRules(max_message_bytes=1 << 24, timestamp_after_max_ms=1 << 62)
    result = validate(batch, 0, len(batch), rules, 0)
    assert (result.producer_id, result.producer_epoch, result.base_sequence) == (9, 3, 55)
    assert result.record_count == len(of)
    assert batch == before


@pytest.mark.parametrize("reader", READERS)
@given(of=RECORDS, codec=CODEC)
def test_they_read_what_we_build(reader: Callable[..., Any], of: list[Record], codec: int) -> None:
    theirs = reader(build_batch(of, codec=codec, base_offset=1000, producer_id=5))
    assert theirs.validate_crc()
    read = [
        Record(
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for record in theirs
    ]
    for index, record in enumerate(of):
        record.offset = 1000 + index
    assert read == of
