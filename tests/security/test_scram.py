"""SCRAM: the RFC's own example, and every trick that must not work."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.logins import TOKEN_ID, TOKEN_SECRET, credential, scram_secrets

from ottla.common.chance import Chance
from ottla.security import scram
from ottla.security.mechanism import LoginRefused, user
from ottla.security.scram import ScramMechanism, credential_of, read_client_first
from ottla.security.scram_client import ScramClient
from ottla.security.scram_server import ScramServer

SHA_256 = ScramMechanism.SCRAM_SHA_256
EACH = pytest.mark.parametrize("mechanism", ScramMechanism)


def exchange(server: ScramServer, client: ScramClient) -> None:
    final = client.evaluate(server.evaluate(client.first()))
    assert final is not None
    assert client.evaluate(server.evaluate(final)) is None


def begun(first: bytes, mechanism: ScramMechanism = SHA_256) -> tuple[ScramServer, bytes]:
    server = ScramServer(scram_secrets(mechanism))
    return server, server.evaluate(first)


def refused(server: ScramServer, token: bytes) -> str:
    with pytest.raises(LoginRefused) as error:
        server.evaluate(token)
    assert server.identity is None
    return str(error.value)


def test_the_example_of_rfc_7677() -> None:
    """Its nonces are given, so that all that is computed is compared."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = SHA_256.salted_password(b"pencil", salt, 4096)
    known = credential_of(SHA_256, salted, salt, 4096)
    server = ScramServer(scram_secrets(SHA_256, {"user": known}))
    server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    server._nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server._server_first = b"r=%b,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % server._nonce
    last = server.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@EACH
def test_both_sides_agree(mechanism: ScramMechanism) -> None:
    server = ScramServer(scram_secrets(mechanism))
    exchange(server, ScramClient(mechanism, "alice", "alice-secret", Chance(2)))
    assert server.identity is not None
    assert server.identity.principal == user("alice")


@given(name=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1))
def test_names_are_escaped(name: str) -> None:
    client = ScramClient(SHA_256, name, "x", Chance(2))
    assert read_client_first(client.first()).name == name


@EACH
def test_an_unknown_user_fails_where_a_wrong_password_fails(mechanism: ScramMechanism) -> None:
    """The same salt each time; the same words; nothing tells that nobody is there."""
    salts = []
    for name, password in (("nobody", "x"), ("nobody", "y"), ("alice", "wrong")):
        server = ScramServer(scram_secrets(mechanism))
        client = ScramClient(mechanism, name, password, Chance(2))
        challenge = server.evaluate(client.first())
        salts.append(challenge.split(b",")[1])
        assert challenge.endswith(b",i=4096")
        final = client.evaluate(challenge)
        assert final is not None
        assert refused(server, final) == ""
    assert salts[0] == salts[1] != salts[2]


def test_a_token_is_no_user_and_a_user_no_token() -> None:
    for name, password, with_token in (
        (TOKEN_ID, TOKEN_SECRET, False),
        ("alice", "alice-secret", True),
        ("no-token", TOKEN_SECRET, True),
    ):
        server = ScramServer(scram_secrets(SHA_256))
        client = ScramClient(SHA_256, name, password, Chance(2), with_token=with_token)
        final = client.evaluate(server.evaluate(client.first()))
        assert final is not None
        refused(server, final)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,,r=abc,n=alice",
        b"n,,n=al=ice,r=abc",
        b"n,,n=al\xc3\xafce,r=abc",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,1=x",
        b"n,,n=alice,r=abc\0",
        b"n,alice,n=alice,r=abc",
    ],
)
def test_a_first_message_that_is_none(first: bytes) -> None:
    assert refused(ScramServer(scram_secrets(SHA_256)), first) == ""


def test_nobody_logs_in_for_another() -> None:
    server = ScramServer(scram_secrets(SHA_256))
    words = refused(server, b"n,a=bob,n=alice,r=abc")
    assert "authorization id that is different from username" in words


def test_credentials_with_too_few_iterations_let_nobody_in() -> None:
    weak = credential(SHA_256, b"x", 4095)
    server = ScramServer(scram_secrets(SHA_256, {"weak": weak}))
    assert refused(server, b"n,,n=weak,r=abc") == ""


def final_of(first: bytes, challenge: bytes, **changed: bytes) -> bytes:
    """A right last message of alice, but for what is changed in it."""
    fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salted = SHA_256.salted_password(
        b"alice-secret", base64.b64decode(fields[b"s"]), int(fields[b"i"])
    )
    known = credential_of(SHA_256, salted, b"", 1)
    channel = changed.get("channel", b"biws")
    unproved = b"c=" + channel + b",r=" + changed.get("nonce", fields[b"r"])
    bare = first.split(b",", 2)[2]
    signature = SHA_256.hmac(known.stored_key, b",".join((bare, challenge, unproved)))
    key = SHA_256.hmac(salted, b"Client Key")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return unproved + b",p=" + changed.get("proof", base64.b64encode(proof))


FIRST = b"n,,n=alice,r=abc"


def test_the_right_one_is_right() -> None:
    server, challenge = begun(FIRST)
    assert server.evaluate(final_of(FIRST, challenge)).startswith(b"v=")


@pytest.mark.parametrize("more", [b",x=y", b",b=1,a=2", b",tokenauth=false"])
def test_extensions_are_passed_over(more: bytes) -> None:
    server, challenge = begun(FIRST + more)
    assert server.evaluate(final_of(FIRST + more, challenge)).startswith(b"v=")


@pytest.mark.parametrize("nonce", [b"abc", b"abcd", b"x"])
def test_the_nonce_must_be_the_one_that_was_given(nonce: bytes) -> None:
    """CVE-2024-56128."""
    server, challenge = begun(FIRST)
    assert refused(server, final_of(FIRST, challenge, nonce=nonce)) == ""


def test_a_nonce_that_only_begins_so_is_another() -> None:
    server, challenge = begun(FIRST)
    given = challenge.split(b",")[0].removeprefix(b"r=")
    refused(server, final_of(FIRST, challenge, nonce=given + b"x"))


def test_a_last_message_of_another_login_does_not_help() -> None:
    server, challenge = begun(FIRST)
    heard = final_of(FIRST, challenge)
    server.evaluate(heard)
    other, _ = begun(FIRST)
    other._secrets.chance.bytes(1)
    later = ScramServer(other._secrets)
    later.evaluate(FIRST)
    assert refused(later, heard) == ""


def test_a_last_message_is_taken_once() -> None:
    server, challenge = begun(FIRST)
    final = final_of(FIRST, challenge)
    server.evaluate(final)
    with pytest.raises(LoginRefused):
        server.evaluate(final)


@pytest.mark.parametrize("channel", [b"eSws", b"cD10bHMtdW5pcXVlLCw="])
def test_the_channel_must_be_the_one_of_the_first_message(channel: bytes) -> None:
    server, challenge = begun(FIRST)
    assert refused(server, final_of(FIRST, challenge, channel=channel)) == ""


@pytest.mark.parametrize("proof", [b"AAAA", b"A" * 44, base64.b64encode(bytes(32)), b"!"])
def test_the_proof_must_be_right(proof: bytes) -> None:
    server, challenge = begun(FIRST)
    assert refused(server, final_of(FIRST, challenge, proof=proof)) == ""


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_no_bytes_are_a_surprise(first: bytes, final: bytes) -> None:
    server = ScramServer(scram_secrets(SHA_256))
    with pytest.raises(LoginRefused):
        server.evaluate(first)
        server.evaluate(final)


# The client's side


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=AAAA,i=4096",
        b"r=%b,s=AAAA,i=4096",
        b"r=%bx,s=AAAA,i=4095",
        b"r=%bx,s=AAAA,i=999999999",
        b"r=%bx,s=AAAA,i=-1",
        b"r=%bx,i=4096",
    ],
)
def test_a_client_does_not_follow_a_server_that_plays_tricks(challenge: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "x", Chance(2))
    nonce = client.first().split(b"r=")[1]
    with pytest.raises(LoginRefused):
        client.evaluate(challenge.replace(b"%b", nonce))


@pytest.mark.parametrize("last", [b"", b"e=other-error", b"v=AAAA", b"v=" + b"A" * 43 + b"="])
def test_a_client_wants_the_server_to_know_the_password_too(last: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "alice-secret", Chance(2))
    server = ScramServer(scram_secrets(SHA_256))
    client.evaluate(server.evaluate(client.first()))
    with pytest.raises(LoginRefused):
        client.evaluate(last)


def test_secrets_are_not_shown() -> None:
    shown = repr(scram_secrets(SHA_256)) + repr(credential(SHA_256, b"alice-secret"))
    assert "decoy" not in shown
    assert "salt of" not in shown


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_no_message_is_longer_than_any_can_be(more: int, is_taken: bool) -> None:
    """On either side: what is longer is not even looked at."""
    readers = {
        scram.read_client_first: (b"n,,n=alice,r=", b""),
        scram.read_client_final: (b"c=biws,r=", b",p=AAAA"),
        scram.read_server_first: (b"r=", b",s=AAAA,i=4096"),
        scram.read_server_final: (b"v=AAAA,x=", b""),
    }
    for read, (head, tail) in readers.items():
        message = head + b"x" * (scram.MESSAGE_MAX - len(head) - len(tail) + more) + tail
        if is_taken:
            assert read(message)
        else:
            with pytest.raises(LoginRefused):
                read(message)
