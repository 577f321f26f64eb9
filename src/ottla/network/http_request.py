"""HTTP/1.1 requests out of bytes, as they come: for pages that are only read. No I/O, no clock.

Only GET and HEAD are served, so that no request has a body. What is no such request is refused
with a status, and costs the peer its connection. A peer makes us keep no more than the limits say.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

LINE_MAX: Final = 4 << 10
"""Bytes of the request line, and of one header."""
HEAD_MAX: Final = 16 << 10
"""Bytes of a request line with all its headers."""
HEADERS_MAX: Final = 64
PARAMETERS_MAX: Final = 32
METHODS: Final = ("GET", "HEAD")

_REQUEST_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.([01])")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*)")


class HttpRefused(Exception):
    """What came is not answered otherwise than by this status; the connection ends."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class HttpRequest(NamedTuple):
    method: str
    path: str
    parameters: tuple[tuple[str, str], ...] = ()
    accept: str = ""
    is_chunkable: bool = True
    """Whether the peer knows an answer whose length is not said before it (HTTP/1.1)."""
    is_kept: bool = True
    """Whether the connection stays for another request."""

    def parameter(self, name: str) -> str | None:
        return next((value for key, value in self.parameters if key == name), None)


class HttpRequests:
    """What one peer sends; each piece may bring no request, one, or several."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[HttpRequest]:
        """The requests that are whole by now; HttpRefused behind them for what is none."""
        rest = self._rest + piece
        while True:
            rest = rest.lstrip(b"\r\n")
            end = rest.find(b"\r\n\r\n", 0, HEAD_MAX)
            if end < 0:
                break
            request = parse_head(rest[:end])
            yield request
            rest = rest[end + 4 :]
            if not request.is_kept:
                rest = b""
                break
        if len(rest) > LINE_MAX and b"\r\n" not in rest[: LINE_MAX + 2]:
            raise HttpRefused(414, "the request line is too long")
        if len(rest) >= HEAD_MAX:
            raise HttpRefused(431, "the request's headers are too long")
        self._rest = rest


def parse_head(head: bytes) -> HttpRequest:
    """A request line and its headers, without the empty line behind them."""
    try:
        first, *lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise HttpRefused(400, "not a request of HTTP") from None
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise HttpRefused(400, "not a request of HTTP")
    if len(first) > LINE_MAX:
        raise HttpRefused(414, "the request line is too long")
    headers = _headers(lines)
    method, target, minor = match[1], match[2], match[3]
    if minor == "1" and "host" not in headers:
        raise HttpRefused(400, "a request of HTTP/1.1 names its host")
    if method not in METHODS:
        raise HttpRefused(405, "only GET and HEAD are served")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise HttpRefused(400, "a request that is only read has no body")
    path, parameters = _target(target)
    connection = headers.get("connection", "").lower()
    return HttpRequest(
        method,
        path,
        parameters,
        headers.get("accept", ""),
        is_chunkable=minor == "1",
        is_kept=minor == "1" and "close" not in connection,
    )


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > HEADERS_MAX:
        raise HttpRefused(431, f"the request has more than {HEADERS_MAX} headers")
    headers: dict[str, str] = {}
    for line in lines:
        if len(line) > LINE_MAX:
            raise HttpRefused(431, "a header is too long")
        match = _HEADER.fullmatch(line)
        if match is None:
            raise HttpRefused(400, "a header that is none")
        name = match[1].lower()
        if name in headers and name in {"host", "content-length"}:
            raise HttpRefused(400, f"the header {name} comes twice")
        headers[name] = match[2].strip()
    return headers


def _target(target: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    if not target.startswith("/"):
        raise HttpRefused(400, "a request names a path of this server")
    path, _, query = target.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise HttpRefused(400, f"the request has more than {PARAMETERS_MAX} parameters") from None
    return unquote(path, errors="replace"), tuple(pairs)
