"""A response as it goes over the wire: length, header, body."""

from struct import Struct

from ottla.protocol.headers import response_header_version
from ottla.protocol.message import Message
from ottla.protocol.primitives import Writer

_PREFIX = Struct(">ii")
_FLEXIBLE_PREFIX = Struct(">iiB")


def frame_response(response: Message, api_key: int, version: int, correlation_id: int) -> bytes:
    out = Writer()
    response.encode(out, version)
    body = out.getvalue()
    if response_header_version(api_key, version) >= 1:
        return _FLEXIBLE_PREFIX.pack(len(body) + 5, correlation_id, 0) + body
    return _PREFIX.pack(len(body) + 4, correlation_id) + body
