"""Which header stands before a request or a response, and how to read a request's.

Flexible versions have headers with tagged fields, with one exception: the answer to ApiVersions
always has the old header, because a client that asks does not know yet what the broker speaks.
"""

from struct import Struct
from typing import Final

from ottla.common.errors import ProtocolViolation
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.request_header import RequestHeader
from ottla.protocol.generated.response_header import ResponseHeader
from ottla.protocol.message import from_buffer
from ottla.protocol.primitives import Writer, nullable_string

_read_key_and_version: Final = Struct(">hh").unpack_from
_pack_request_header: Final = Struct(">hhi").pack
_REQUEST_HEADER_SIZE_MIN: Final = 8
_NO_TAGGED_FIELDS: Final = b"\x00"


def request_header_version(api_key: int, version: int) -> int:
    """KeyError when there is no such API."""
    return 2 if version >= APIS[api_key].flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """KeyError when there is no such API."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= APIS[api_key].flexible_from else 0


def decode_request_header(data: bytes, pos: int) -> tuple[RequestHeader, int]:
    """The header at ``pos``, and where the body begins; ProtocolViolation when it is none.

    The version need not be one that we speak: of ApiVersions a client may ask any.
    """
    if len(data) - pos < _REQUEST_HEADER_SIZE_MIN:
        raise ProtocolViolation(f"request header of {len(data) - pos} bytes")
    key, version = _read_key_and_version(data, pos)
    if key not in APIS:
        raise ProtocolViolation(f"unknown API key {key}")
    return from_buffer(RequestHeader, data, pos, request_header_version(key, version))


def encode_request_header(
    out: Writer, *, api_key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    # Even in flexible versions the client id is a string of the old kind; then the tagged fields.
    out.parts.append(_pack_request_header(api_key, version, correlation_id))
    out.parts.append(nullable_string(client_id))
    if version >= APIS[api_key].flexible_from:
        out.parts.append(_NO_TAGGED_FIELDS)


def encode_response_header(out: Writer, *, api_key: int, version: int, correlation_id: int) -> None:
    header = ResponseHeader(correlation_id=correlation_id)
    header.encode(out, response_header_version(api_key, version))


def decode_response_header(
    data: bytes, pos: int, *, api_key: int, version: int
) -> tuple[ResponseHeader, int]:
    return from_buffer(ResponseHeader, data, pos, response_header_version(api_key, version))
