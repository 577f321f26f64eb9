"""Logins by SASL, step by step: both answer the same, in the same words, and close alike."""

import contextlib
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from tests.differential.conftest import TARGET
from tests.differential.secured_side import settings
from tests.differential.wire import (
    Connection,
    ConnectionClosed,
    decode_answer,
    raw_frame,
    request_frame,
)
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, ottla

Json = Any
SILENCE: Final = 2.0


class Step(NamedTuple):
    """A frame, and how its answer is read; a bare token has no API."""

    frame: bytes
    api: str = ""
    version: int = 0


def step(api: str, version: int, **fields: Json) -> Step:
    return Step(request_frame(api, version, fields), api, version)


def raw(api: str, version: int, body: bytes) -> Step:
    return Step(raw_frame(api, version, body), api, min(version, 2))


def handshake(version: int = 1, mechanism: str = "PLAIN") -> Step:
    return step("SaslHandshake", version, mechanism=mechanism)


def token(text: str = "\0alice\0alice", version: int = 2) -> Step:
    return step("SaslAuthenticate", version, auth_bytes=text.encode())


def bare(text: str = "\0alice\0alice") -> Step:
    return Step(struct.pack(">i", len(text)) + text.encode())


def versions(name: str = "tests", version: int = 4) -> Step:
    return step("ApiVersions", version, client_software_name=name, client_software_version="1")


METADATA: Final = step("Metadata", 12, topics=[])
UNKNOWN_VERSIONS: Final = Step(raw_frame("ApiVersions", 99, b"\0"), "ApiVersions", 0)

LOGINS: Final = {
    "with versions first": [versions(), handshake(), token(), METADATA],
    "without versions": [handshake(), token(), METADATA],
    "authenticate v0": [handshake(), token(version=0), METADATA],
    "authenticate v1": [handshake(), token(version=1), METADATA],
    "versions twice": [versions(), versions()],
    "versions of the future, then of today": [UNKNOWN_VERSIONS, versions(), handshake(), token()],
    "versions of nobody, then of somebody": [versions("-"), versions(), handshake(), token()],
    "versions of v0 and v3": [versions(version=0), handshake(), token()],
    "metadata first": [METADATA],
    "authenticate first": [token()],
    "authenticate after versions": [versions(), token()],
    "a handshake of the future": [raw("SaslHandshake", 9, b"\0\5PLAIN")],
    "another mechanism": [handshake(mechanism="SCRAM-SHA-256")],
    "no mechanism": [handshake(mechanism="")],
    "a mechanism in small letters": [handshake(0, "plain")],
    "two handshakes": [handshake(), handshake(), token()],
    "versions after a handshake": [handshake(), versions(), token()],
    "authenticate of the future": [handshake(), raw("SaslAuthenticate", 9, b"\0")],
    "bare tokens": [handshake(0), bare(), METADATA],
    "bare tokens that are wrong": [handshake(0), bare("\0alice\0bob"), METADATA],
    "a handshake after a login": [handshake(), token(), handshake(), METADATA],
    "authenticate after a login": [handshake(), token(), token(), METADATA],
    "versions after a login": [handshake(), token(), versions(), METADATA],
    "a frame that is too large": [Step(struct.pack(">i", 524_289) + bytes(100))],
    "a frame of no length": [Step(struct.pack(">i", -1))],
    "an empty frame": [Step(struct.pack(">i", 0))],
    "an unknown API": [Step(struct.pack(">ihhih", 10, 999, 0, 1, -1))],
    "nothing in a request": [raw("SaslHandshake", 1, b"")],
    "more in a request than there is": [raw("SaslHandshake", 1, b"\0\5PLAIN\0\0"), token()],
}
TOKENS: Final = {
    "a wrong password": "\0alice\0bob",
    "an unknown user": "\0nobody\0nobody",
    "no user": "\0\0alice",
    "no password": "\0alice\0",
    "nothing": "",
    "two parts": "alice\0alice",
    "four parts": "\0alice\0alice\0",
    "many parts": "\0" * 40,
    "the same name to act for": "alice\0alice\0alice",
    "another name to act for": "admin\0alice\0alice",
    "another name to act for, and a wrong password": "admin\0alice\0bob",
    "no text": "\0alice\0\udcff",
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    theirs = apache_kafka(heap=("-Xmx512M",))
    ours = theirs if TARGET == "kafka" else ottla()
    brokers = [
        BrokerProcess(program, tmp_path_factory.mktemp(name), settings(["alice"]))
        for name, program in (("ours", ours), ("theirs", theirs))
    ]
    try:
        for broker in brokers:
            broker.start()
        yield brokers[0].port, brokers[1].port
    finally:
        for broker in brokers:
            broker.kill()


def outcomes(port: int, steps: list[Step]) -> list[Json]:
    """What each step was answered, up to the end of the connection."""
    found: list[Json] = []
    with contextlib.closing(Connection(port, timeout=SILENCE)) as connection:
        for each in steps:
            connection.send(each.frame)
            try:
                answer = connection.receive()
            except (ConnectionClosed, TimeoutError) as error:
                return [*found, "closed" if isinstance(error, ConnectionClosed) else "silence"]
            found.append(seen(each, answer))
        try:
            connection.send(METADATA.frame)
            connection.receive()
            found.append("open")
        except (ConnectionClosed, TimeoutError) as error:
            found.append("closed" if isinstance(error, ConnectionClosed) else "silence")
    return found


def seen(each: Step, answer: bytes) -> Json:
    if not each.api:
        return answer
    decoded = decode_answer(each.api, each.version, answer)
    if each.api == "ApiVersions":
        return decoded["errorCode"]
    if each.api == "Metadata":
        return decoded["topics"]
    return decoded


@pytest.mark.parametrize("what", LOGINS)
def test_steps_of_a_login(what: str, ports: tuple[int, int]) -> None:
    ours, theirs = (outcomes(port, LOGINS[what]) for port in ports)
    assert ours == theirs


@pytest.mark.parametrize("what", TOKENS)
def test_tokens_of_plain(what: str, ports: tuple[int, int]) -> None:
    data = TOKENS[what].encode("utf-8", "surrogateescape")
    frame = request_frame("SaslAuthenticate", 2, {"auth_bytes": data})
    steps = [handshake(), Step(frame, "SaslAuthenticate", 2)]
    ours, theirs = (outcomes(port, steps) for port in ports)
    assert ours == theirs
