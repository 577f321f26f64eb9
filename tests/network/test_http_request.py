"""Requests of HTTP out of bytes: whole ones, torn ones, and what is none."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.network.http_request import (
    HEAD_MAX,
    HEADERS_MAX,
    LINE_MAX,
    HttpRefused,
    HttpRequest,
    HttpRequests,
)

SCRAPE = (
    b"GET /metrics?dialect=confluent&x=a%20b HTTP/1.1\r\nHost: a:1\r\nAccept: text/plain\r\n\r\n"
)


def refusal(data: bytes) -> int:
    with pytest.raises(HttpRefused) as refused:
        list(HttpRequests().take(data))
    return refused.value.status


def test_a_request_is_read_with_its_parameters() -> None:
    (request,) = HttpRequests().take(SCRAPE)
    assert request == HttpRequest(
        "GET", "/metrics", (("dialect", "confluent"), ("x", "a b")), "text/plain"
    )
    assert request.parameter("x") == "a b"
    assert request.parameter("y") is None


@given(st.lists(st.integers(0, 3 * len(SCRAPE)), max_size=8))
def test_pieces_make_the_same_requests(cuts: list[int]) -> None:
    data = 3 * SCRAPE
    requests, at = HttpRequests(), 0
    found: list[HttpRequest] = []
    for cut in [*sorted(cuts), len(data)]:
        found += requests.take(data[at:cut])
        at = cut
    assert found == list(HttpRequests().take(data))
    assert len(found) == 3
    assert not requests._rest


def test_who_knows_only_the_old_http_is_answered_once() -> None:
    (request,) = HttpRequests().take(b"HEAD / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    assert request == HttpRequest("HEAD", "/", is_chunkable=False, is_kept=False)
    (request,) = HttpRequests().take(b"GET / HTTP/1.1\r\nhost: a\r\nConnection: Close\r\n\r\n")
    assert not request.is_kept


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),  # a client that begins TLS
        (b"GET /\r\n\r\n", 400),
        (b"GET metrics HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /?" + b"a&" * 99 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /" + b"a" * LINE_MAX + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"a" * (LINE_MAX + 1), 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (HEADERS_MAX + 1) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\na: " + b"b" * LINE_MAX + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_MAX, 431),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, status: int) -> None:
    assert refusal(data) == status


@given(st.lists(st.binary(max_size=600) | st.sampled_from([SCRAPE, b"\r\n", b"GET "]), max_size=60))
@example([b"GET / HTTP/1.1\r\n", *[b"x: " + b"y" * 500 + b"\r\n"] * 60])
def test_no_bytes_do_harm(pieces: list[bytes]) -> None:
    requests, status = HttpRequests(), 200
    found: list[HttpRequest] = []
    for piece in pieces:
        try:
            found += requests.take(piece)
        except HttpRefused as refused:
            status = refused.status
            break
        assert len(requests._rest) < HEAD_MAX
    assert status in {200, 400, 405, 414, 431}
    assert all(request.method in {"GET", "HEAD"} for request in found)
    assert all(request.path.startswith("/") for request in found)
