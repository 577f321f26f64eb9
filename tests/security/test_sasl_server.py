"""The server's side of a login: its states, what is refused in each, and sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.logins import (
    NOW_MS,
    TOKEN_EXPIRES_MS,
    TOKEN_ID,
    TOKEN_SECRET,
    authenticate,
    authenticated,
    handshake,
    plain,
    request,
    settings,
    shaken,
)

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode, ProtocolViolation
from ottla.protocol.api import APIS, ApiKey
from ottla.security.mechanism import Identity, user
from ottla.security.sasl_server import FRAMES_MAX, LoginStep, SaslServer, Session, Step
from ottla.security.scram import MECHANISMS
from ottla.security.scram_client import ScramClient

ALICE = plain("alice", "alice-secret")


def received(server: SaslServer, *frames: bytes) -> LoginStep:
    step = None
    for frame in frames:
        step = server.receive(frame, NOW_MS)
    assert step is not None
    return step


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_in_each_version_of_authenticate(version: int) -> None:
    server = SaslServer(settings())
    first = received(server, handshake("PLAIN"))
    assert first.step is Step.ANSWERED
    assert shaken(first.answer).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    last = received(server, authenticate(ALICE, version))
    assert last.step is Step.LOGGED_IN
    assert last.session is not None
    assert last.session.identity.principal == user("alice")
    answer = authenticated(last.answer, version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert answer.session_lifetime_ms == 0


def test_after_a_handshake_of_version_0_tokens_come_bare() -> None:
    server = SaslServer(settings())
    received(server, handshake("PLAIN", 0))
    last = received(server, ALICE)
    assert last.step is Step.LOGGED_IN
    assert last.answer == bytes(4)


def test_a_bare_token_that_is_wrong_is_not_answered() -> None:
    server = SaslServer(settings())
    last = received(server, handshake("PLAIN", 0), plain("alice", "wrong"))
    assert (last.step, last.answer) == (Step.REFUSED, b"")


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize("version", [0, 1])
def test_scram_with_either_kind_of_tokens(mechanism: str, version: int) -> None:
    server = SaslServer(settings())
    client = ScramClient(MECHANISMS[mechanism], "bob", "bob-secret", Chance(3))
    received(server, handshake(mechanism, version))

    def ask(token: bytes) -> tuple[LoginStep, bytes]:
        step = received(server, authenticate(token) if version else token)
        return step, authenticated(step.answer).auth_bytes if version else step.answer[4:]

    step, challenge = ask(client.first())
    assert step.step is Step.ANSWERED
    final = client.evaluate(challenge)
    assert final is not None
    step, challenge = ask(final)
    assert step.step is Step.LOGGED_IN
    assert step.session is not None
    assert step.session.identity.principal == user("bob")
    assert client.evaluate(challenge) is None


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    server = SaslServer(settings())
    step = received(server, handshake("GSSAPI"))
    answer = shaken(step.answer)
    assert step.step is Step.REFUSED
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    with pytest.raises(ProtocolViolation):
        received(server, handshake("PLAIN"))


def test_versions_may_be_asked_for_once_and_only_first() -> None:
    server = SaslServer(settings())
    versions = request(ApiKey.API_VERSIONS, 0)
    assert received(server, versions).step is Step.LEFT_TO_API_VERSIONS
    assert received(server, versions).step is Step.LEFT_TO_API_VERSIONS  # the first was refused
    server.versions_told()
    with pytest.raises(ProtocolViolation):
        received(server, versions)


@pytest.mark.parametrize("key", sorted(set(APIS) - {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}))
def test_no_other_request_is_looked_at_before_a_login(key: ApiKey) -> None:
    with pytest.raises(ProtocolViolation, match="before a login"):
        received(SaslServer(settings()), request(key, 0))


@pytest.mark.parametrize("version", [-1, 2, 99])
def test_a_handshake_in_an_unknown_version_ends_the_connection(version: int) -> None:
    with pytest.raises(ProtocolViolation):
        received(SaslServer(settings()), request(ApiKey.SASL_HANDSHAKE, version, b"\0\x05PLAIN"))


def test_an_unknown_version_of_authenticate_ends_the_connection() -> None:
    server = SaslServer(settings())
    received(server, handshake("PLAIN"))
    with pytest.raises(ProtocolViolation):
        received(server, request(ApiKey.SASL_AUTHENTICATE, 3, b"\x01\0"))


@pytest.mark.parametrize(
    "frame", [handshake("PLAIN", 0), handshake("PLAIN"), request(ApiKey.API_VERSIONS, 0)]
)
def test_a_request_of_a_login_out_of_order_is_told_so(frame: bytes) -> None:
    server = SaslServer(settings())
    received(server, handshake("PLAIN"))
    step = received(server, frame)
    assert step.step is Step.REFUSED
    assert int.from_bytes(step.answer[8:10], "big") == ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(ProtocolViolation):
        received(server, authenticate(ALICE))


def test_any_other_request_out_of_order_ends_the_connection() -> None:
    server = SaslServer(settings())
    received(server, handshake("PLAIN"))
    with pytest.raises(ProtocolViolation, match="Metadata during a login"):
        received(server, request(ApiKey.METADATA, 9, bytes(100)))


def test_a_wrong_password_is_told_and_nothing_follows() -> None:
    server = SaslServer(settings())
    step = received(server, handshake("PLAIN"), authenticate(plain("alice", "wrong")))
    answer = authenticated(step.answer)
    assert step.step is Step.REFUSED
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    with pytest.raises(ProtocolViolation):
        received(server, authenticate(ALICE))


def test_what_has_no_words_of_its_own_is_told_in_the_same_words() -> None:
    server = SaslServer(settings())
    step = received(server, handshake("SCRAM-SHA-256"), authenticate(b"nonsense"))
    assert authenticated(step.answer).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_a_login_has_only_so_many_frames() -> None:
    server = SaslServer(settings())
    for _ in range(FRAMES_MAX):
        received(server, request(ApiKey.API_VERSIONS, 99))
    with pytest.raises(ProtocolViolation, match="more frames"):
        received(server, handshake("PLAIN"))


@pytest.mark.parametrize(("version", "told"), [(0, 0), (1, 3000), (2, 3000)])
def test_the_lifetime_of_a_session_is_told_from_version_1(version: int, told: int) -> None:
    server = SaslServer(settings(reauthentication_ms=3000))
    step = received(server, handshake("PLAIN"), authenticate(ALICE, version))
    assert step.session is not None
    assert step.session.lifetime_ms == 3000
    assert authenticated(step.answer, version).session_lifetime_ms == told


@pytest.mark.parametrize(("limit", "lifetime"), [(0, 60_000), (5_000, 5_000), (99_000, 60_000)])
def test_a_session_by_token_ends_with_the_token_at_the_latest(limit: int, lifetime: int) -> None:
    server = SaslServer(settings(limit))
    client = ScramClient(
        MECHANISMS["SCRAM-SHA-512"], TOKEN_ID, TOKEN_SECRET, Chance(1), with_token=True
    )
    first = received(server, handshake("SCRAM-SHA-512"), authenticate(client.first()))
    final = client.evaluate(authenticated(first.answer).auth_bytes)
    assert final is not None
    step = received(server, authenticate(final))
    assert step.session is not None
    assert step.session.identity.principal == user("carol", token_authenticated=True)
    assert step.session.identity.expires_at_ms == TOKEN_EXPIRES_MS
    assert step.session.lifetime_ms == lifetime


def again(mechanism: str, *frames: bytes) -> LoginStep:
    """A login on the connection of alice, who has come by PLAIN."""
    server = SaslServer(settings(3000))
    before = received(server, handshake("PLAIN"), authenticate(ALICE)).session
    return received(SaslServer(settings(3000), before), handshake(mechanism), *frames)


def test_a_session_goes_on_by_another_login() -> None:
    assert again("PLAIN", authenticate(ALICE)).step is Step.LOGGED_IN


def test_a_session_cannot_become_anothers() -> None:
    step = again("PLAIN", authenticate(plain("bob", "bob-secret")))
    assert step.step is Step.REFUSED
    assert authenticated(step.answer).error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_a_session_goes_on_by_a_token_of_the_same_user() -> None:
    mechanism = "SCRAM-SHA-512"
    before = Session(Identity(user("carol")), mechanism, 3000)
    server = SaslServer(settings(3000), before)
    client = ScramClient(MECHANISMS[mechanism], TOKEN_ID, TOKEN_SECRET, Chance(1), with_token=True)
    first = received(server, handshake(mechanism), authenticate(client.first()))
    final = client.evaluate(authenticated(first.answer).auth_bytes)
    assert final is not None
    assert received(server, authenticate(final)).step is Step.LOGGED_IN


def test_a_session_keeps_its_mechanism() -> None:
    assert shaken(again("SCRAM-SHA-256").answer).error_code == 0
    with pytest.raises(ProtocolViolation, match="another SASL mechanism"):
        again("SCRAM-SHA-256", authenticate(b"n,,n=alice,r=abc"))


def test_versions_are_not_asked_for_in_the_middle_of_a_session() -> None:
    before = received(SaslServer(settings(1)), handshake("PLAIN"), authenticate(ALICE))
    server = SaslServer(settings(1), before.session)
    with pytest.raises(ProtocolViolation):
        received(server, request(ApiKey.API_VERSIONS, 3))


FRAMES = st.one_of(
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI", ""]).flatmap(
        lambda name: st.sampled_from([handshake(name), handshake(name, 0)])
    ),
    st.sampled_from([b"", b"\0\0", b"n,,n=alice,r=abc", b"c=biws,r=abc,p=AAAA"]).map(authenticate),
    st.sampled_from([plain("alice", "wrong"), plain("bob", "x", "alice")]).map(authenticate),
    st.sampled_from(sorted(APIS)).map(lambda key: request(key, 0, bytes(20))),
    st.binary(max_size=60),
)


@given(frames=st.lists(FRAMES, max_size=FRAMES_MAX + 4), told=st.booleans())
def test_nobody_gets_in_without_a_right_password_whatever_comes(
    frames: list[bytes], *, told: bool
) -> None:
    """And whatever ends a login, ends it for good."""
    server = SaslServer(settings())
    is_over = False
    for number, frame in enumerate(frames):
        try:
            step = server.receive(frame, NOW_MS)
        except ProtocolViolation:
            is_over = is_over or number >= FRAMES_MAX
            continue
        assert not is_over
        assert number < FRAMES_MAX
        assert step.step is not Step.LOGGED_IN
        if step.step is Step.LEFT_TO_API_VERSIONS and told:
            server.versions_told()
        is_over = step.step is Step.REFUSED
