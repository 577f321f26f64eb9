"""Strangers at a listener with logins: nothing that they send lets them in or hurts the others."""

import base64
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.differential.wire import (
    Connection,
    ConnectionClosed,
    decode_answer,
    raw_frame,
    request_frame,
)
from tests.hostile.secured import (
    ALICE,
    LIMIT,
    PASSWORD,
    SCOPE,
    SCRAM,
    SecuredBroker,
    bearer,
    jwt,
    logged_in,
    plain,
    scram,
    shake,
    token,
)
from tests.hostile.test_frames import closed_within, connections

pytestmark = pytest.mark.usefixtures("bystander")

Json = Any
FAILED: Final = 58
ILLEGAL_STATE: Final = 34
NOT_ENABLED: Final = 33
TOO_LARGE: Final = (LIMIT + 1, 100 << 20, 2**31 - 1, -1, -(2**31), 0, 3)
METADATA: Final = request_frame("Metadata", 12, {"topics": None})
VERSIONS: Final = request_frame(
    "ApiVersions", 4, {"client_software_name": "t", "client_software_version": "1"}
)
HANDSHAKE: Final = request_frame("SaslHandshake", 1, {"mechanism": "PLAIN"})
RIGHT: Final = request_frame("SaslAuthenticate", 2, {"auth_bytes": plain()})


def is_closed(connection: Connection) -> bool:
    """Whether the broker closes without another word."""
    try:
        connection.receive()
    except ConnectionClosed:
        return True
    return False


# Frames


@pytest.mark.parametrize("length", TOO_LARGE)
def test_a_frame_that_is_too_large_before_a_login(length: int, secured: SecuredBroker) -> None:
    """CVE-2022-34917: nothing is allocated for what is only promised."""
    with connections(secured.sasl, 200) as opened:
        for each in opened:
            each.sendall(struct.pack(">i", length) + b"\0" * 64)
        assert closed_within(opened, 10) == 0


def test_the_largest_frames_that_are_allowed_do_not_add_up(secured: SecuredBroker) -> None:
    """Three hundred strangers send nearly all of a frame of the largest size, and leave it at that.

    The witness sees that there is not memory for all of them.
    """
    with connections(secured.sasl, 300) as opened:
        for each in opened:
            each.setblocking(False)
        left = {each: struct.pack(">i", LIMIT) + bytes(LIMIT - 1) for each in opened}
        for _ in range(40):
            for each, data in left.items():
                with contextlib.suppress(BlockingIOError):
                    left[each] = data[each.send(data[:65_536]) :] if data else b""
        with logged_in(secured.sasl) as other:
            assert other.ask("Metadata", 12, {"topics": []})["topics"] == []


HUGE_INSIDE: Final = {
    "the name of a mechanism": raw_frame("SaslHandshake", 1, b"\x7f\xffPLAIN"),
    "a name of no length": raw_frame("SaslHandshake", 1, b"\xff\xfePLAIN"),
    "tagged fields of ApiVersions": raw_frame("ApiVersions", 3, b"\x01\x01\xff\xff\xff\xff\x0f"),
    "one tagged field": raw_frame("ApiVersions", 3, b"\x01\x01\x01\x00\xff\xff\xff\xff\x0f"),
    "the client's name": raw_frame("ApiVersions", 3, b"\xff\xff\xff\xff\x0f\x01\x00"),
    "a number that never ends": raw_frame("ApiVersions", 3, b"\xff" * 1000),
}


@pytest.mark.parametrize("what", HUGE_INSIDE)
def test_lengths_inside_a_frame_before_a_login(what: str, secured: SecuredBroker) -> None:
    """CVE-2022-34917, CVE-2026-111108, CVE-2026-111115: counts, strings, tagged fields."""
    for _ in range(50):
        with Connection(secured.sasl) as connection:
            connection.send(HUGE_INSIDE[what])
            try:
                answer = decode_answer("ApiVersions", 3, connection.receive())
            except ConnectionClosed:
                continue
            assert answer["errorCode"] != 0


@pytest.mark.parametrize(
    "body", [b"\x7f\xff\xff\xff\0", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x05abc"]
)
def test_lengths_of_tokens(body: bytes, secured: SecuredBroker) -> None:
    with shake(secured.sasl, "PLAIN") as connection:
        connection.send(raw_frame("SaslAuthenticate", 1, body))
        assert is_closed(connection)


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01", b"SSH-2"]
)
def test_another_protocol(greeting: bytes, secured: SecuredBroker) -> None:
    with connections(secured.sasl, 20) as opened:
        for each in opened:
            each.sendall(greeting)
            each.shutdown(socket.SHUT_WR)
        assert closed_within(opened, 10) == 0


# The states of a login, and what does not belong there


def at_start(port: int) -> Connection:
    return Connection(port)


def after_versions(port: int) -> Connection:
    connection = Connection(port)
    connection.send(VERSIONS)
    assert decode_answer("ApiVersions", 4, connection.receive())["errorCode"] == 0
    return connection


def after_handshake(port: int) -> Connection:
    return shake(port, "PLAIN")


def in_scram(port: int) -> Connection:
    connection = shake(port, SCRAM)
    assert token(connection, scram().first())["errorCode"] == 0
    return connection


CLOSED: Final = None
OUT_OF_ORDER: Final = [
    (at_start, METADATA, CLOSED),
    (at_start, RIGHT, CLOSED),
    (at_start, raw_frame("SaslHandshake", 9, b"\0\x05PLAIN"), CLOSED),
    (at_start, request_frame("Produce", 9, {"acks": 0}), CLOSED),
    (at_start, request_frame("Envelope", 0, {}), CLOSED),
    (at_start, request_frame("Fetch", 12, {"replica_id": 1}), CLOSED),
    (after_versions, VERSIONS, CLOSED),
    (after_versions, RIGHT, CLOSED),
    (after_versions, METADATA, CLOSED),
    (after_handshake, METADATA, CLOSED),
    (after_handshake, raw_frame("SaslAuthenticate", 9, b""), CLOSED),
    (after_handshake, VERSIONS, ILLEGAL_STATE),
    (after_handshake, HANDSHAKE, ILLEGAL_STATE),
    (in_scram, METADATA, CLOSED),
    (in_scram, HANDSHAKE, ILLEGAL_STATE),
    (in_scram, VERSIONS, ILLEGAL_STATE),
    (in_scram, RIGHT, FAILED),
]


@pytest.mark.parametrize(("arrive", "frame", "code"), OUT_OF_ORDER)
def test_what_comes_out_of_order_ends_the_connection(
    arrive: Any, frame: bytes, code: int | None, secured: SecuredBroker
) -> None:
    """And a login that was right does not help any more: nothing of it is remembered."""
    with arrive(secured.sasl) as connection:
        connection.send(frame + HANDSHAKE + RIGHT + METADATA)
        if code is not CLOSED:
            answer = connection.receive()
            assert code in struct.unpack_from(">xxxxh", answer) + struct.unpack_from(
                ">xxxxxh", answer
            )
        assert is_closed(connection)


def test_all_at_once_is_in_order_too(secured: SecuredBroker) -> None:
    """A client that does not wait for answers gets them all, and is in."""
    with Connection(secured.sasl) as connection:
        connection.send(VERSIONS + HANDSHAKE + RIGHT + METADATA)
        for api, version in (("ApiVersions", 4), ("SaslHandshake", 1), ("SaslAuthenticate", 2)):
            assert decode_answer(api, version, connection.receive())["errorCode"] == 0
        shown = decode_answer("Metadata", 12, connection.receive())["topics"]
        assert "witness" not in {each["name"] for each in shown}, "which is not alice's"


def test_what_is_sent_behind_a_wrong_password_is_not_looked_at(secured: SecuredBroker) -> None:
    wrong = request_frame("SaslAuthenticate", 2, {"auth_bytes": plain(password="wrong")})
    with Connection(secured.sasl) as connection:
        connection.send(HANDSHAKE + wrong + HANDSHAKE + RIGHT + METADATA)
        connection.receive()
        assert decode_answer("SaslAuthenticate", 2, connection.receive())["errorCode"] == FAILED
        assert is_closed(connection)


def test_after_a_login_there_is_no_other(secured: SecuredBroker) -> None:
    """Without an end of the session nobody changes who it is."""
    with logged_in(secured.sasl) as connection:
        for _ in range(3):
            answer = connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
            assert answer == {"errorCode": ILLEGAL_STATE, "mechanisms": []}
            again = token(connection, plain("admin", "admin-secret"))
            assert again["errorCode"] == ILLEGAL_STATE
        assert connection.ask("DescribeAcls", 3, {})["errorCode"] == 31, "still alice"


def test_a_mechanism_that_is_not_enabled(secured: SecuredBroker) -> None:
    for name in ("GSSAPI", "SCRAM-SHA-512", "plain", "", "P" * 32_000, "PLAIN\0", "\x1b[2J"):
        with Connection(secured.sasl) as connection:
            answer = connection.ask("SaslHandshake", 1, {"mechanism": name})
            assert answer["errorCode"] == NOT_ENABLED
            assert is_closed(connection)
    assert "\x1b" not in secured.output(last=1 << 30)


def test_bare_tokens_say_nothing_of_a_failure(secured: SecuredBroker) -> None:
    """After a handshake of version 0; and RIGHT, with its header, is no token there."""
    for bad in (plain(password="wrong"), b"", RIGHT[4:], b"\0" * 1000):
        with shake(secured.sasl, "PLAIN", 0) as connection:
            connection.send(struct.pack(">i", len(bad)) + bad)
            assert is_closed(connection)


# SCRAM


def finals(first: bytes, last: bytes) -> dict[str, bytes]:
    """Last messages that are wrong, made of a right one; ``first`` is the server's."""
    nonce = first.split(b",")[0][2:]
    channel, _, proof = last.split(b",")
    return {
        "only the client's nonce": b",".join((channel, b"r=" + nonce[:20], proof)),
        "another nonce": b",".join((channel, b"r=" + nonce[::-1], proof)),
        "a nonce with more behind it": b",".join((channel, b"r=" + nonce + b"x", proof)),
        "two nonces": b",".join((channel, b"r=" + nonce, b"r=" + nonce, proof)),
        "no nonce": b",".join((channel, proof)),
        "no proof": b",".join((channel, b"r=" + nonce)),
        "an empty proof": b",".join((channel, b"r=" + nonce, b"p=")),
        "a short proof": b",".join((channel, b"r=" + nonce, b"p=AAAA")),
        "a long proof": b",".join((channel, b"r=" + nonce, b"p=" + b"A" * 400_000)),
        "another proof": b",".join((channel, b"r=" + nonce, b"p=" + b"A" * 43 + b"=")),
        "another channel": b",".join((b"c=eSws", b"r=" + nonce, proof)),
        "nothing": b"",
        "much": b"c=biws," + b"x" * 500_000,
    }


@pytest.mark.parametrize("what", finals(b"r=n", b"c=biws,r=n,p=x"))
def test_the_last_message_of_scram(what: str, secured: SecuredBroker) -> None:
    """CVE-2024-56128: the nonce of the last message is compared with the whole of the server's."""
    client = scram()
    with shake(secured.sasl, SCRAM) as connection:
        challenge = _bytes(token(connection, client.first())["authBytes"])
        right = client.evaluate(challenge)
        assert right is not None
        assert token(connection, finals(challenge, right)[what])["errorCode"] == FAILED
        assert is_closed(connection)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


FIRSTS: Final = {
    "another's name to act for": b"n,a=admin,n=alice,r=abc",
    "a channel": b"p=tls-unique,,n=alice,r=abc",
    "a client that could bind": b"y,,n=alice,r=abc",
    "no nonce": b"n,,n=alice,r=",
    "no name": b"n,,n=,r=abc",
    "an extension that must be understood": b"n,,m=x,n=alice,r=abc",
    "a name that is none": b"n,,n=al=00ice,r=abc",
    "a name beyond ASCII": "n,,n=ałice,r=abc".encode(),
    "a name of half a megabyte": b"n,,n=" + b"a" * 500_000,
    "escapes without end": b"n,,n=" + b"=2C" * 160_000,
    "a nonce of half a megabyte, and a stop": b"n,,n=alice,r=" + b"a" * 500_000 + b"\0",
    "extensions without end": b"n,,n=alice,r=abc" + b",a=b" * 120_000 + b"\0",
    "zeros": bytes(100_000),
}


@pytest.mark.parametrize("what", FIRSTS)
def test_the_first_message_of_scram(what: str, secured: SecuredBroker) -> None:
    """CVE-2017-12610 for another's name; huge messages cost no more than their bytes."""
    for _ in range(5):
        with shake(secured.sasl, SCRAM) as connection:
            assert token(connection, FIRSTS[what])["errorCode"] == FAILED
            assert is_closed(connection)


@pytest.mark.parametrize("iterations", [0, 1, 4095, 16_385, 2**31 - 1, -1])
def test_iterations_that_would_be_cheap_or_dear(iterations: int, secured: SecuredBroker) -> None:
    """Neither are they stored, nor does a server ever compute them."""
    given = {"name": "mallory", "mechanism": 1, "iterations": iterations, "salt": b"s",
             "salted_password": b"p" * 32}  # fmt: skip
    with Connection(secured.port) as connection:
        answer = connection.ask("AlterUserScramCredentials", 0, {"upsertions": [given]})
    assert answer["results"][0]["errorCode"] == 93


def test_an_unknown_user_of_scram_looks_like_a_wrong_password(secured: SecuredBroker) -> None:
    """In length too: whether there is a user cannot be told from the challenge."""
    challenges = []
    for name in (b"alice", b"nobody", b"nobody"):
        with shake(secured.sasl, SCRAM) as connection:
            answer = token(connection, b"n,,n=" + name + b",r=abc")
            assert answer["errorCode"] == 0
            challenges.append(_bytes(answer["authBytes"]).split(b",")[1:])
    assert challenges[1] == challenges[2], "the same salt each time"


# PLAIN


@pytest.mark.parametrize(
    "data",
    [
        plain(authzid="admin"),
        plain(password=""),
        plain(name=""),
        plain(password=PASSWORD + "\0"),
        plain(password=PASSWORD[:-1]),
        plain(password=PASSWORD.upper()),
        plain(name="Alice"),
        plain(name="nobody"),
        plain(name="user_alice"),
        b"",
        b"\0" * 500_000,
        b"\0alice\0" + b"x" * 500_000,
        b"\xff\xfe\0alice\0" + PASSWORD.encode(),
    ],
)
def test_tokens_of_plain(data: bytes, secured: SecuredBroker) -> None:
    """CVE-2017-12610 for the first of them: another's name to act for."""
    with shake(secured.sasl, "PLAIN") as connection:
        answer = token(connection, data)
        assert answer["errorCode"] == FAILED
        assert PASSWORD not in (answer["errorMessage"] or "")
        assert is_closed(connection)


# Unsecured tokens


def test_a_good_token_is_good(secured: SecuredBroker) -> None:
    with shake(secured.sasl, "OAUTHBEARER") as connection:
        answer = token(connection, bearer(jwt(), authzid=ALICE))
        assert (answer["errorCode"], answer["authBytes"]) == (0, "")
        assert 0 < answer["sessionLifetimeMs"] <= 60_000


TOKENS: Final[dict[str, Callable[[], str]]] = {
    "signed": lambda: jwt({"alg": "RS256"}, "c2ln"),
    "said to be signed": lambda: jwt({"alg": "HS256"}),
    "none, with a signature": lambda: jwt(signature="c2ln"),
    "None": lambda: jwt({"alg": "None"}),
    "NONE": lambda: jwt({"alg": "NONE"}),
    "no algorithm": lambda: jwt({}),
    "a list of algorithms": lambda: jwt({"alg": ["none"]}),
    "a list for a header": lambda: jwt(["alg", "none"]),
    "expired": lambda: jwt(exp=1_000_000),
    "never expires": lambda: jwt(exp=None),
    "expires in words": lambda: jwt(exp="never"),
    "expires in truth": lambda: jwt(exp=True),
    "expires beyond numbers": lambda: jwt(exp=1e300),
    "expires in nothing": lambda: jwt(exp=float("nan")),
    "expires in infinity": lambda: jwt(exp=float("inf")),
    "expires before it was issued": lambda: jwt(iat=4e9, exp=3.9e9),
    "nobody's": lambda: jwt(sub=None),
    "of a blank": lambda: jwt(sub=" "),
    "of a number": lambda: jwt(sub=7),
    "without scope": lambda: jwt(scope=None),
    "of another scope": lambda: jwt(scope=f"not-{SCOPE}"),
    "of a scope that is no word": lambda: jwt(scope=[7]),
    "one part": lambda: "bm9uZQ",
    "four parts": lambda: jwt() + ".x",
    "no base64": lambda: "-.-.",
    "deep": lambda: "W1tb" * 10_000 + ".e30.",
}


@pytest.mark.parametrize("what", TOKENS)
def test_unsecured_tokens_that_are_refused(what: str, secured: SecuredBroker) -> None:
    """CVE-2026-33557, CVE-2026-110985: a token is never taken as it is."""
    with shake(secured.sasl, "OAUTHBEARER") as connection:
        answer = token(connection, bearer(TOKENS[what]()))
        assert answer["errorCode"] == 0, "told as a challenge"
        assert b"status" in _bytes(answer["authBytes"])
        connection.send(METADATA)
        assert is_closed(connection)


def test_a_token_is_not_for_another(secured: SecuredBroker) -> None:
    """CVE-2017-12610."""
    with shake(secured.sasl, "OAUTHBEARER") as connection:
        assert token(connection, bearer(jwt(), authzid="admin"))["errorCode"] == FAILED
        assert is_closed(connection)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic YTpi\x01\x01",
        b"y,,\x01auth=Bearer x.y.\x01\x01",
        b"n,,\x01" + b"a=b\x01" * 100_000,
        b"n,a=" + b"\x01" * 400_000,
        b"\xff" * 1000,
    ],
)
def test_first_messages_of_oauthbearer(data: bytes, secured: SecuredBroker) -> None:
    with shake(secured.sasl, "OAUTHBEARER") as connection:
        assert token(connection, data)["errorCode"] == FAILED
        assert is_closed(connection)


def test_secrets_are_in_no_line_of_the_log(secured: SecuredBroker) -> None:
    """CVE-2026-33558: of passwords, right and wrong ones, of tokens and proofs."""
    for data in (plain(), plain(password="sesame-1"), plain(name="sesame-2", password="sesame-3")):
        with shake(secured.sasl, "PLAIN") as connection:
            token(connection, data)
    found = secured.output(last=1 << 30)
    assert "login refused" in found
    for secret in (PASSWORD, "admin-secret", "bob-secret", "sesame-1", "sesame-3"):
        assert secret not in found
