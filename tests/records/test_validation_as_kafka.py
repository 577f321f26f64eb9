"""Every case of the table is answered with the code that stands in it."""

import pytest
from tests.records.hostile_batches import CASES, RULES, Case
from tests.records.raw_batches import NOW

from ottla.common.errors import ApiError, ErrorCode
from ottla.records.batch import crc_is_valid, read_header
from ottla.records.record import iterate
from ottla.records.validation import validate


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_batch_is_answered_as_kafka_answers_it(case: Case) -> None:
    buffer = bytearray(case.batch)
    if case.expected is not ErrorCode.NONE:
        with pytest.raises(ApiError) as refusal:
            validate(buffer, 0, len(buffer), RULES[case.topic], NOW + 1000)
        assert refusal.value.code is case.expected
        assert [index for index, _ in refusal.value.record_errors] == case.errors_at
        assert refusal.value.message
        return
    result = validate(buffer, 0, len(buffer), RULES[case.topic], NOW + 1000)
    written = bytes(result.buffer[result.start : result.end])
    header = read_header(written)
    assert header.size == len(written)
    assert crc_is_valid(written, 0, len(written))
    stored = iterate(written)
    assert [record.offset for record in stored] == list(range(header.record_count))
    if header.attributes & 8 == 0:
        assert header.max_timestamp == max(record.timestamp for record in stored)


def test_each_case_has_its_own_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
