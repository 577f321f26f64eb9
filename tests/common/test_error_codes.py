"""The numbers of errors."""

import pytest

from ottla.common.error_codes import ErrorCode


def test_a_code_of_a_newer_kafka_is_an_unknown_error() -> None:
    assert ErrorCode(1_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_is_no_number_is_no_code() -> None:
    with pytest.raises(ValueError, match="nothing"):
        ErrorCode("nothing")  # type: ignore[arg-type]
