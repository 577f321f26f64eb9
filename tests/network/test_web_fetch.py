"""A document of the web: got whole, or refused in time; nobody sends us elsewhere."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ottla.client.system_time import SystemTime
from ottla.network import web_fetch
from ottla.network.web_fetch import BYTES_MAX, FetchFailed, fetch

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """A server whose answers the test decides."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Answer = lambda handler: say(handler, 200, b"{}")
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append(self.path)
                web.answer(self)

            def log_message(self, *_words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def say(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


class Hurried:
    """A clock that runs fast."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 20.0
        return self._now

    def wall_ms(self) -> int:
        return 0


def test_a_document_is_got_with_its_path_and_query(web: Web) -> None:
    web.answer = lambda handler: say(handler, 200, b"x" * 200_000)
    assert fetch(f"{web.url}/keys?tenant=a", SystemTime()) == b"x" * 200_000
    assert fetch(web.url, SystemTime())
    assert web.asked == ["/keys?tenant=a", "/"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(web: Web, status: int) -> None:
    web.answer = lambda handler: say(handler, status, b"", Location=f"{web.url}/elsewhere")
    with pytest.raises(FetchFailed, match=str(status)):
        fetch(f"{web.url}/keys", SystemTime())
    assert web.asked == ["/keys"]


@pytest.mark.parametrize("status", [204, 400, 401, 404, 500, 503])
def test_another_answer_is_a_failure(web: Web, status: int) -> None:
    web.answer = lambda handler: say(handler, status, b"")
    with pytest.raises(FetchFailed, match=str(status)):
        fetch(web.url, SystemTime())


def test_a_document_that_is_too_large(web: Web) -> None:
    web.answer = lambda handler: say(handler, 200, b"x" * (BYTES_MAX + 1))
    with pytest.raises(FetchFailed, match="more than"):
        fetch(web.url, SystemTime())


def test_a_document_that_comes_too_slowly(web: Web) -> None:
    web.answer = lambda handler: say(handler, 200, b"x" * 300_000)
    with pytest.raises(FetchFailed, match="seconds"):
        fetch(web.url, Hurried())


def test_a_server_that_says_nothing(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_fetch, "TIMEOUT_SECONDS", 0.2)
    done = threading.Event()

    def say_nothing(_handler: BaseHTTPRequestHandler) -> None:
        done.wait(10)

    web.answer = say_nothing
    with pytest.raises(FetchFailed, match="timed out"):
        fetch(web.url, SystemTime())
    done.set()


def test_a_server_that_is_not_there(web: Web) -> None:
    url = web.url
    web.close()
    with pytest.raises(FetchFailed):
        fetch(url, SystemTime())
    web.__init__()  # type: ignore[misc]


def test_a_server_without_a_certificate_that_we_trust_is_not_asked(web: Web) -> None:
    with pytest.raises(FetchFailed):
        fetch(web.url.replace("http:", "https:"), SystemTime())
    assert web.asked == []
