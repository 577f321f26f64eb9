"""Connections of a listener whose clients log in by SASL: what answers their frames until then.

The decisions are :mod:`ottla.security.sasl_server`'s. Here they meet a connection: after a login it
has a principal; one that is refused hears so after a pause, which costs nobody else anything, and
is closed. A session that ends (KIP-368) is made to go on by a login on the same connection; after
its end nothing else is answered on it.
"""

from struct import Struct
from typing import Final

from ottla.common.buffers import Answer
from ottla.common.environment import Scheduler
from ottla.common.errors import ProtocolViolation
from ottla.common.promise import Promise
from ottla.network.connection import AnswerFrame, Connection
from ottla.observability.logging import logger
from ottla.protocol.api import ApiKey
from ottla.security.sasl_server import (
    REAUTHENTICATION_PAUSE,
    LoginStep,
    SaslServer,
    SaslSettings,
    Session,
    Step,
)

log = logger(__name__)

_KEY: Final = Struct(">h")
_ERROR_AT: Final = 8
"""Where an answer to ApiVersions has its error: behind its length and its number."""


class _Login:
    """How far the login of one connection has come."""

    __slots__ = ("began", "expires_at", "server", "session")

    def __init__(self, server: SaslServer, began: float) -> None:
        self.server: SaslServer | None = server
        """The one that goes on; None between two."""
        self.began = began
        self.session: Session | None = None
        self.expires_at = 0.0


class SaslListener:
    """Implements ``Login``."""

    def __init__(
        self,
        settings: SaslSettings,
        answer: AnswerFrame,
        scheduler: Scheduler,
        *,
        frame_bytes: int,
        frame_bytes_after: int,
        refusal_delay_ms: int,
    ) -> None:
        """``answer`` answers the frames of clients that are in."""
        self._settings = settings
        self._answer = answer
        self._scheduler = scheduler
        self.frame_bytes = frame_bytes
        self._frame_bytes_after = frame_bytes_after
        self._delay = refusal_delay_ms / 1000

    def answer(
        self, connection: Connection, frame: memoryview
    ) -> "Answer | Promise[Answer] | None":
        login = connection.login
        if login is None:
            began = self._scheduler.monotonic()
            login = connection.login = _Login(SaslServer(self._settings), began)
        assert isinstance(login, _Login)
        assert login.server is not None
        return self._step(connection, login, login.server, frame)

    def _in_session(
        self, connection: Connection, frame: memoryview
    ) -> "Answer | Promise[Answer] | None":
        """A frame of somebody whose session ends some day."""
        login = connection.login
        assert isinstance(login, _Login)
        if login.server is not None:
            return self._step(connection, login, login.server, frame)
        now = self._scheduler.monotonic()
        is_handshake = len(frame) >= _KEY.size and _KEY.unpack_from(frame) == (
            ApiKey.SASL_HANDSHAKE,
        )
        if is_handshake and now - login.began >= REAUTHENTICATION_PAUSE:
            login.began = now
            server = login.server = SaslServer(self._settings, login.session)
            return self._step(connection, login, server, frame)
        if now > login.expires_at:
            raise ProtocolViolation("the session has expired")
        return self._answer(connection, frame)

    def _step(
        self, connection: Connection, login: _Login, server: SaslServer, frame: memoryview
    ) -> "Answer | Promise[Answer] | None":
        outcome = server.receive(bytes(frame), self._scheduler.wall_ms())
        if outcome.step is Step.ANSWERED:
            return outcome.answer
        if outcome.step is Step.LEFT_TO_API_VERSIONS:
            told = self._answer(connection, frame)
            if isinstance(told, bytes) and told[_ERROR_AT : _ERROR_AT + 2] == b"\0\0":
                server.versions_told()
            return told
        if outcome.step is Step.REFUSED:
            return self._refused(connection, outcome)
        assert outcome.session is not None
        self._let_in(connection, login, outcome.session)
        return outcome.answer

    def _let_in(self, connection: Connection, login: _Login, session: Session) -> None:
        principal = session.identity.principal
        login.server = None
        login.session = session
        if session.lifetime_ms is None:
            connection.login = None
            connection.logged_in(principal, self._answer, self._frame_bytes_after)
        else:
            login.expires_at = self._scheduler.monotonic() + session.lifetime_ms / 1000
            connection.logged_in(principal, self._in_session, self._frame_bytes_after)
        log.debug(
            "logged in",
            principal=str(principal),
            mechanism=session.mechanism,
            peer=connection.peer_host,
            listener=connection.listener_name,
        )

    def _refused(self, connection: Connection, outcome: LoginStep) -> Promise[Answer]:
        log.info(
            "login refused",
            reason=outcome.reason,
            peer=connection.peer_host,
            listener=connection.listener_name,
        )
        answer: Promise[Answer] = Promise(self._scheduler.turn)
        connection.end()
        self._scheduler.call_later(self._delay, answer.fulfil, outcome.answer)
        return answer
