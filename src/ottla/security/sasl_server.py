"""The server's side of a SASL login: from the first frame of a connection to a principal.

``ApiVersions? SaslHandshake SaslAuthenticate*``, as Kafka's SaslServerAuthenticator has it. After a
handshake of version 0 tokens come bare, without the headers of requests. Nothing else is decoded
before somebody has logged in, and no more frames are taken than a login has.

A login that begins again on the same connection (KIP-368) is another `SaslServer`, which knows the
session so far.
"""

from collections.abc import Mapping
from enum import Enum, auto
from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import ErrorCode, ProtocolViolation
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.frame import frame
from ottla.protocol.generated.api_versions import ApiVersionsResponse
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.headers import decode_request_header, response_header_version
from ottla.protocol.message import Message, from_buffer, to_bytes
from ottla.security.mechanism import (
    Identity,
    LoginRefused,
    NewServerMechanism,
    ServerMechanism,
)

FRAMES_MAX: Final = 16
"""Of one login: the longest that anybody needs has five."""
REAUTHENTICATION_PAUSE: Final = 1.0
"""A login begins again this many seconds after it began before, or later."""
_CORRELATION_ID: Final = Struct(">i")
_REFUSALS: Final[Mapping[int, type[ApiVersionsResponse] | type[SaslHandshakeResponse]]] = {
    ApiKey.API_VERSIONS: ApiVersionsResponse,
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse,
}
_MECHANISM_MAX: Final = 255
"""Longer names are no mechanism's; what is not enabled is told in a log."""


class SaslSettings(NamedTuple):
    """How clients of one listener log in."""

    mechanisms: Mapping[str, NewServerMechanism]
    """Those that are enabled, in the order in which clients are told."""
    reauthentication_ms: Mapping[str, int]
    """By mechanism, how long a session lasts; 0 where the credentials alone decide."""


class Session(NamedTuple):
    """Who has logged in on a connection, and how."""

    identity: Identity
    mechanism: str
    lifetime_ms: int | None
    """None: until the connection ends."""


class Step(Enum):
    """What becomes of a frame."""

    ANSWERED = auto()
    LEFT_TO_API_VERSIONS = auto()
    """Its handler answers; :meth:`SaslServer.versions_told` is called when it did so well."""
    LOGGED_IN = auto()
    REFUSED = auto()
    """Answered late, and then the connection is closed."""


class LoginStep(NamedTuple):
    step: Step
    answer: bytes = b""
    """With its length before it; empty when nothing is answered."""
    session: Session | None = None
    reason: str = ""
    """For our log."""


class _State(Enum):
    START = auto()
    HANDSHAKE_ONLY = auto()
    """ApiVersions was answered."""
    AUTHENTICATE = auto()
    BARE_TOKENS = auto()
    BAD_MECHANISM = auto()
    """Another than the session has; told with the next frame, as in Kafka."""
    OVER = auto()


class SaslServer:
    """One login on one connection."""

    def __init__(self, settings: SaslSettings, before: Session | None = None) -> None:
        """``before`` is the session that is to go on, if there is one."""
        self._settings = settings
        self._before = before
        self._state = _State.START if before is None else _State.HANDSHAKE_ONLY
        self._frames = 0
        self._name = ""
        self._mechanism: ServerMechanism | None = None

    def versions_told(self) -> None:
        self._state = _State.HANDSHAKE_ONLY

    def receive(self, data: bytes, wall_ms: int) -> LoginStep:
        """Take a frame, without its length; ProtocolViolation ends the connection at once."""
        self._frames += 1
        if self._frames > FRAMES_MAX or self._state is _State.OVER:
            raise ProtocolViolation("more frames than a login has")
        if self._state is _State.BAD_MECHANISM:
            raise ProtocolViolation("another SASL mechanism than before")
        if self._state is _State.BARE_TOKENS:
            return self._bare_token(data, wall_ms)
        header, pos = decode_request_header(data, 0)
        key, version = header.request_api_key, header.request_api_version
        correlation_id = header.correlation_id
        if self._state is _State.AUTHENTICATE:
            if key != ApiKey.SASL_AUTHENTICATE:
                return self._out_of_order(key, version, correlation_id)
            asked, _ = from_buffer(SaslAuthenticateRequest, data, pos, version)
            return self._token(asked.auth_bytes, version, correlation_id, wall_ms)
        if key == ApiKey.API_VERSIONS and self._state is _State.START:
            return LoginStep(Step.LEFT_TO_API_VERSIONS)
        if key != ApiKey.SASL_HANDSHAKE:
            raise ProtocolViolation(f"{APIS[key].name} before a login")
        handshake, _ = from_buffer(SaslHandshakeRequest, data, pos, version)
        return self._handshake(handshake.mechanism, version, correlation_id)

    # Steps

    def _handshake(self, name: str, version: int, correlation_id: int) -> LoginStep:
        mechanisms = self._settings.mechanisms
        if name not in mechanisms:
            self._state = _State.OVER
            refused = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(mechanisms)
            )
            shown = name if len(name) <= _MECHANISM_MAX else f"{name[:_MECHANISM_MAX]}..."
            return LoginStep(
                Step.REFUSED,
                framed(refused, version, correlation_id),
                reason=f"SASL mechanism {shown!r} is not enabled",
            )
        before = self._before
        if before is not None and before.mechanism != name:
            self._state = _State.BAD_MECHANISM
        else:
            self._state = _State.AUTHENTICATE if version > 0 else _State.BARE_TOKENS
            self._name = name
            self._mechanism = mechanisms[name]()
        answered = SaslHandshakeResponse(mechanisms=list(mechanisms))
        return LoginStep(Step.ANSWERED, framed(answered, version, correlation_id))

    def _out_of_order(self, key: int, version: int, correlation_id: int) -> LoginStep:
        """A request where a token is awaited; only those of a login are answered."""
        refusal = _REFUSALS.get(key)
        if refusal is None or not 0 <= version <= refusal.HIGHEST_VERSION:
            raise ProtocolViolation(f"{APIS[key].name} during a login")
        self._state = _State.OVER
        refused = refusal(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        return LoginStep(
            Step.REFUSED,
            framed(refused, version, correlation_id),
            reason=f"{APIS[key].name} during a login",
        )

    def _token(self, token: bytes, version: int, correlation_id: int, wall_ms: int) -> LoginStep:
        try:
            answer, session = self._evaluate(token, wall_ms)
        except LoginRefused as refusal:
            self._state = _State.OVER
            reason = str(refusal) or self._generic()
            refused = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=reason
            )
            return LoginStep(Step.REFUSED, framed(refused, version, correlation_id), reason=reason)
        response = SaslAuthenticateResponse(auth_bytes=answer)
        if session is None:
            return LoginStep(Step.ANSWERED, framed(response, version, correlation_id))
        self._state = _State.OVER
        if version > 0:
            response.session_lifetime_ms = session.lifetime_ms or 0
        return LoginStep(Step.LOGGED_IN, framed(response, version, correlation_id), session)

    def _bare_token(self, token: bytes, wall_ms: int) -> LoginStep:
        try:
            answer, session = self._evaluate(token, wall_ms)
        except LoginRefused as refusal:
            self._state = _State.OVER
            return LoginStep(Step.REFUSED, reason=str(refusal) or self._generic())
        if session is None:
            return LoginStep(Step.ANSWERED, frame(answer))
        self._state = _State.OVER
        return LoginStep(Step.LOGGED_IN, frame(answer), session)

    def _evaluate(self, token: bytes, wall_ms: int) -> tuple[bytes, Session | None]:
        mechanism = self._mechanism
        assert mechanism is not None
        answer = mechanism.evaluate(token)
        identity = mechanism.identity
        if identity is None:
            return answer, None
        before = self._before
        # Whether it showed a token makes nobody another.
        if before is not None and str(before.identity.principal) != str(identity.principal):
            was, now = before.identity.principal, identity.principal
            raise LoginRefused(
                "Cannot change principals during re-authentication from "
                f"{was.type}.{was.name}: {now.type}.{now.name}"
            )
        return answer, Session(identity, self._name, self._lifetime_ms(identity, wall_ms))

    def _lifetime_ms(self, identity: Identity, wall_ms: int) -> int | None:
        limits = []
        if self._settings.reauthentication_ms.get(self._name, 0) > 0:
            limits.append(self._settings.reauthentication_ms[self._name])
        if identity.expires_at_ms is not None:
            limits.append(max(0, identity.expires_at_ms - wall_ms))
        return min(limits, default=None)

    def _generic(self) -> str:
        phase = "authentication" if self._before is None else "re-authentication"
        return (
            f"Authentication failed during {phase} due to invalid credentials with SASL mechanism "
            f"{self._name}"
        )


def framed(response: Message, version: int, correlation_id: int) -> bytes:
    """A response as it goes over the wire."""
    header = _CORRELATION_ID.pack(correlation_id)
    if response_header_version(response.API_KEY, version):
        header += b"\0"
    return frame(header + to_bytes(response, version))
