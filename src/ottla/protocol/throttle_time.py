"""The throttle time in an answer that is encoded already: read and written where it stands.

It stands first in nearly every response. Where it does not (Produce, ApiVersions), the answer is
decoded and encoded again: a client that is throttled has the time.
"""

from struct import Struct
from typing import Final, Protocol, cast

from ottla.common.buffers import Answer
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.message import Response, from_buffer, to_bytes

_INT32: Final = Struct(">i")
_HEADER: Final = 8
_SAMPLE: Final = 0x5A5B5C5D
"""No other field has it by default."""
_UNKNOWN: Final = -1
_PLACES: Final[dict[tuple[int, int], int | None]] = {}
"""By API and version, of those that were asked for."""


class _Throttled(Protocol):
    """A response that has the field."""

    throttle_time_ms: int


def throttle_time_ms(answer: Answer, response: type[Response], version: int) -> int:
    """What a framed ``answer`` says; 0 where it stands elsewhere, or does not stand at all."""
    at = _place(response, version)
    head = answer if isinstance(answer, bytes) else answer[0]
    if at is None or not isinstance(head, bytes) or len(head) < at + _INT32.size:
        return 0
    found: int = _INT32.unpack_from(head, at)[0]
    return found


def with_throttle_time(answer: Answer, response: type[Response], version: int, ms: int) -> Answer:
    """The answer with ``ms``; as it is, where its version has no place for that."""
    at = _place(response, version)
    if at is not None:
        head = answer if isinstance(answer, bytes) else answer[0]
        assert isinstance(head, bytes)
        head = head[:at] + _INT32.pack(ms) + head[at + _INT32.size :]
        return head if isinstance(answer, bytes) else [head, *answer[1:]]
    if not isinstance(answer, bytes) or not _has_field(response, version):
        return answer
    body_at = _body_at(response, version)
    message, _ = from_buffer(response, answer, body_at, version)
    _set(message, ms)
    framed = answer[_INT32.size : body_at] + to_bytes(message, version)
    return _INT32.pack(len(framed)) + framed


def _body_at(response: type[Response], version: int) -> int:
    """Behind the length and the header, which has tags in flexible versions, but for one API."""
    api = APIS[response.API_KEY]
    has_tags = version >= api.flexible_from and api.key != ApiKey.API_VERSIONS
    return _HEADER + 1 if has_tags else _HEADER


def _place(response: type[Response], version: int) -> int | None:
    """Where it stands in a framed answer, if that is first in the body."""
    known = _PLACES.get((response.API_KEY, version), _UNKNOWN)
    if known == _UNKNOWN:
        known = _PLACES[response.API_KEY, version] = _find_place(response, version)
    return known


def _find_place(response: type[Response], version: int) -> int | None:
    if not _has_field(response, version):
        return None
    is_first = _sampled(response, version).startswith(_INT32.pack(_SAMPLE))
    return _body_at(response, version) if is_first else None


def _has_field(response: type[Response], version: int) -> bool:
    return "throttle_time_ms" in response.__slots__ and _INT32.pack(_SAMPLE) in _sampled(
        response, version
    )


def _set(response: Response, ms: int) -> None:
    cast("_Throttled", response).throttle_time_ms = ms


def _sampled(response: type[Response], version: int) -> bytes:
    sample = response()
    _set(sample, _SAMPLE)
    try:
        return to_bytes(sample, version)
    except ValueError:  # this version has no such field
        return b""
