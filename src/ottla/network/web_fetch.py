"""A document of the web, got by blocking calls on a thread of its own: bounded in time and bytes.

No redirect is followed: the server that was allowed must not send us to another.
"""

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ottla.common.clock import Clock

TIMEOUT_SECONDS: Final = 10.0
"""For each step: to connect, and for each part of the answer."""
DEADLINE_SECONDS: Final = 30.0
BYTES_MAX: Final = 1 << 20
_PART_BYTES: Final = 64 * 1024
_OK: Final = 200


class FetchFailed(Exception):
    """The document cannot be had; the text says why and shows no secret."""


def fetch(
    url: str,
    clock: Clock,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    bytes_max: int = BYTES_MAX,
) -> bytes:
    """The document; with a ``body`` it is asked for by POST."""
    parts = urlsplit(url)
    connection = _connection(parts)
    deadline = clock.monotonic() + DEADLINE_SECONDS
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"Accept": "application/json", **(headers or {})})
        answer = connection.getresponse()
        if answer.status != _OK:
            raise FetchFailed(f"the answer is {answer.status}")
        data = bytearray()
        while part := answer.read1(_PART_BYTES):
            data += part
            if len(data) > bytes_max:
                raise FetchFailed(f"the answer has more than {bytes_max} bytes")
            if clock.monotonic() > deadline:
                raise FetchFailed(f"the answer takes more than {DEADLINE_SECONDS:.0f} seconds")
        return bytes(data)
    except (OSError, HTTPException, ValueError) as error:
        raise FetchFailed(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def _connection(parts: SplitResult) -> HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=context)
    return HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
