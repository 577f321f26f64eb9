"""The client of schema registries."""

import pickle
from collections.abc import Iterator

import pytest
from tests.spark.registry_server import RegistryServer

from ottla.spark.registry import (
    ANSWER_BYTES_MAX,
    ATTEMPTS,
    Registry,
    RegistryError,
    RegistrySettings,
    RegistryUnavailable,
    SchemaNotFound,
)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as made:
        yield made


def client(*urls: str, **more: str) -> Registry:
    return Registry(RegistrySettings(urls, **more), pause=lambda _: None)  # type: ignore[arg-type]


def test_what_an_id_stands_for_is_asked_for_once(server: RegistryServer) -> None:
    number = server.add("orders-value", "AVRO", '"string"')
    registry = client(server.url)
    first, again = registry.by_id(number), registry.by_id(number)
    assert first is again
    assert (first.id, first.kind, first.text) == (number, "AVRO", '"string"')
    assert len(server.requests) == 1


def test_the_latest_of_a_subject_is_asked_for_each_time(server: RegistryServer) -> None:
    server.add("a/b c", "JSON", "{}")
    registry = client(server.url + "/")
    assert registry.latest("a/b c").text == "{}"
    number = server.add("a/b c", "JSON", '{"type": "object"}')
    assert registry.latest("a/b c").id == number


def test_a_schema_is_registered_once(server: RegistryServer) -> None:
    registry = client(server.url)
    number = registry.register("s", "AVRO", '"long"')
    assert registry.register("s", "AVRO", '"long"') == number
    assert server.requests == ["POST /subjects/s/versions"]
    assert registry.by_id(number).text == '"long"'


def test_references_come_before_what_refers_to_them(server: RegistryServer) -> None:
    server.add("inner", "AVRO", "1")
    middle = {"name": "Inner", "subject": "inner", "version": 1}
    server.add("middle", "AVRO", "2", [middle])
    number = server.add(
        "outer", "AVRO", "3", [{"name": "Middle", "subject": "middle", "version": 1}, middle]
    )
    found = client(server.url).by_id(number)
    assert [each.text for each in found.in_order()] == ["1", "2", "3"]


def test_a_circle_of_references_ends(server: RegistryServer) -> None:
    number = server.add("s", "AVRO", "1", [{"name": "S", "subject": "s", "version": 1}])
    with pytest.raises(RegistryError, match="more than 256 references"):
        client(server.url).by_id(number)


def test_an_unknown_id_is_an_answer_and_silence_is_trouble(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFound, match=r"/schemas/ids/7.*status 404 not found"):
        client(server.url).by_id(7)
    with pytest.raises(SchemaNotFound, match="Subject 'none' not found"):
        client(server.url).latest("none")
    with pytest.raises(RegistryUnavailable, match=r"no schema registry answers GET"):
        client("http://127.0.0.1:1").by_id(7)


def test_a_registry_that_is_troubled_is_asked_again_and_then_another(
    server: RegistryServer,
) -> None:
    number = server.add("s", "AVRO", '"long"')
    server.failures = ATTEMPTS - 1
    assert client(server.url).by_id(number).id == number
    server.failures = ATTEMPTS
    with pytest.raises(RegistryUnavailable, match="503 leader not known"):
        client(server.url).by_id(number)
    assert client("http://127.0.0.1:1", server.url).by_id(number).id == number


def test_credentials_are_sent_and_never_shown(server: RegistryServer) -> None:
    server.credentials = "me:secret"
    number = server.add("s", "AVRO", '"long"')
    assert client(server.url, user="me", password="secret").by_id(number).id == number
    with pytest.raises(RegistryError, match="status 401 Unauthorized"):
        client(server.url).by_id(number)
    settings = RegistrySettings((server.url,), "me", "secret")
    assert "secret" not in repr(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://host/", "localhost:8081", "http://", "http://u:secret@host/", ""],
)
def test_only_plain_addresses_of_http_are_taken(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        RegistrySettings((url,))
    assert "secret" not in str(caught.value)


def test_a_redirect_is_not_followed(server: RegistryServer) -> None:
    class Redirecting(RegistryServer):
        def _find(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, object]]:
            return 302, {"message": "elsewhere"}

    with (
        Redirecting() as redirecting,
        pytest.raises(RegistryError, match="status 302 elsewhere"),
    ):
        client(redirecting.url).by_id(1)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"schema": 5}', b"[" * 100_000, b" " * (ANSWER_BYTES_MAX + 1)],
)
def test_an_answer_that_is_none_is_an_error(server: RegistryServer, body: bytes) -> None:
    server.body = body
    with pytest.raises(RegistryError):
        client(server.url).by_id(1)
    with pytest.raises(RegistryError):
        client(server.url).register("s", "AVRO", "1")
