"""Request and response headers."""

import pytest

from ottla.common.errors import ProtocolViolation
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.request_header import RequestHeader
from ottla.protocol.generated.response_header import ResponseHeader
from ottla.protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from ottla.protocol.primitives import Writer


def request_header(api_key: int, version: int, client_id: str | None) -> bytes:
    out = Writer()
    encode_request_header(
        out, api_key=api_key, version=version, correlation_id=7, client_id=client_id
    )
    return out.getvalue()


def response_header(api_key: int, version: int) -> bytes:
    out = Writer()
    encode_response_header(out, api_key=api_key, version=version, correlation_id=7)
    return out.getvalue()


@pytest.mark.parametrize(
    ("version", "client_id", "expected"),
    [
        (3, "me", "000c 0003 00000007 0002 6d65"),
        (3, None, "000c 0003 00000007 ffff"),
        (4, "me", "000c 0004 00000007 0002 6d65 00"),
        (4, None, "000c 0004 00000007 ffff 00"),
    ],
)
def test_a_request_header_keeps_the_old_form_of_its_client_id(
    version: int, client_id: str | None, expected: str
) -> None:
    data = request_header(ApiKey.HEARTBEAT, version, client_id)
    assert data == bytes.fromhex(expected)
    header, pos = decode_request_header(b"xx" + data + b"body", 2)
    assert pos == 2 + len(data)
    assert header == RequestHeader(
        request_api_key=12, request_api_version=version, correlation_id=7, client_id=client_id
    )


def test_a_response_header_has_tags_from_the_first_flexible_version_on() -> None:
    assert response_header(ApiKey.HEARTBEAT, 3) == bytes.fromhex("00000007")
    assert response_header(ApiKey.HEARTBEAT, 4) == bytes.fromhex("0000000700")
    header, pos = decode_response_header(
        bytes.fromhex("0000000700"), 0, api_key=ApiKey.HEARTBEAT, version=4
    )
    assert (header, pos) == (ResponseHeader(correlation_id=7), 5)


def test_the_answer_to_api_versions_always_has_the_old_header() -> None:
    assert request_header(ApiKey.API_VERSIONS, 3, None).endswith(b"\x00")
    for version in range(5):
        assert response_header(ApiKey.API_VERSIONS, version) == bytes.fromhex("00000007")


def test_a_header_of_an_unknown_version_is_read_so_that_it_can_be_answered() -> None:
    header, _ = decode_request_header(bytes.fromhex("0012 7fff 00000009 ffff 00"), 0)
    assert (header.request_api_version, header.correlation_id) == (0x7FFF, 9)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "000c0004000000",
        "000c000400000007",
        "000c0004000000070002 6d",
        "000c000400000007fffe00",
        "000c000400000007ffff",
        "000c0004000000070001ff00",
        "03e7000000000007ffff",
        "ffff000000000007ffff",
    ],
)
def test_a_header_that_is_none_is_a_violation(data: str) -> None:
    with pytest.raises(ProtocolViolation):
        decode_request_header(bytes.fromhex(data), 0)
