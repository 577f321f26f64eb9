"""A connection to another node that we dial: requests out, promises of answers back.

It connects when there is something to send, asks first which versions the other side speaks, logs
in where that is asked, and sends each request in the highest that both know. Requests may follow
one another without waiting; answers come in their order. Whatever breaks (refusal, end of the
stream, an answer that is none, one that does not come in time) ends the connection and fails all
that waited for it: the next request dials again, but not before a pause that grows with every
failure.

A caller that expects much says by :meth:`NodeClient.ask` how the answer is read: in the buffer that
it was received into, of which no copy is made.
"""

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ErrorCode, ProtocolViolation
from ottla.common.promise import Promise
from ottla.common.turn import Turn
from ottla.network.frame_buffer import FrameBuffer
from ottla.network.sockets import DiallingNetwork, StreamSocket
from ottla.observability.logging import logger
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.frame import frame
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.headers import encode_request_header, response_header_version
from ottla.protocol.message import (
    Message,
    Request,
    Response,
    from_buffer,
    response_class,
    to_bytes,
)
from ottla.protocol.primitives import Writer
from ottla.protocol.produce_request import skip_tagged_fields
from ottla.security.mechanism import HANDSHAKE_VERSION, LoginRefused

if TYPE_CHECKING:
    from ottla.protocol.generated.sasl_authenticate import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
    )
    from ottla.protocol.generated.sasl_handshake import SaslHandshakeResponse
    from ottla.security.sasl_client import SaslClient, SaslLogin

log = logger(__name__)

REQUESTS_MAX: Final = 1_000
"""Requests that wait for a connection or for their answers."""
ANSWER_BYTES_MAX: Final = 100 << 20
_CORRELATION_ID_BYTES: Final = 4
_API_VERSIONS_VERSION: Final = 3
_LOGIN_LANE: Final = "logins-at-nodes"
_CORRELATION_ID_MAX: Final = (1 << 31) - 1

T = TypeVar("T")
R = TypeVar("R", bound=Response)
Read = Callable[[memoryview, int, int], T]
"""Makes something of a frame, the position of the body in it, and the version that was asked in.

The frame is overwritten as soon as the callbacks of the promise have run.
"""


class NodeClientLimits:
    __slots__ = ("backoff_max_seconds", "backoff_seconds", "timeout_seconds")

    def __init__(
        self, *, timeout_seconds: float, backoff_seconds: float, backoff_max_seconds: float = 1.0
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.backoff_seconds = backoff_seconds
        self.backoff_max_seconds = backoff_max_seconds


class _Request(Generic[T]):
    __slots__ = ("answer", "correlation_id", "message", "read", "timer", "version")

    def __init__(self, message: Message, read: Read[T], turn: Turn) -> None:
        self.message = message
        self.read = read
        self.answer: Promise[T] = Promise(turn)
        self.version = -1
        self.correlation_id = -1
        self.timer: Cancellable | None = None


class NodeClient:
    """To one address."""

    def __init__(
        self,
        network: DiallingNetwork,
        scheduler: Scheduler,
        host: str,
        port: int,
        *,
        client_id: str,
        limits: NodeClientLimits,
        login: "SaslLogin | None" = None,
    ) -> None:
        """``login`` is how we say who we are, where that is asked."""
        self._network = network
        self._scheduler = scheduler
        self._host = host
        self._port = port
        self._client_id = client_id
        self._limits = limits
        self._login = login
        self._log_in_at = math.inf
        """When a session must be made to go on by another login."""
        self._is_ready = False
        """Whether the other side answers: it has said its versions, and let us in."""
        self._socket: StreamSocket | None = None
        self._dialling: Promise[StreamSocket] | None = None
        self._versions: dict[int, tuple[int, int]] | None = None
        """What the other side speaks, once it has said so."""
        self._spoken: dict[int, int] = {}
        """The version of each API in which we have asked it."""
        self._queued: deque[_Request[Any]] = deque()
        """For a connection that is ready."""
        self._sent: deque[_Request[Any]] = deque()
        self._unsent = bytearray()
        self._received = FrameBuffer(ANSWER_BYTES_MAX)
        self._correlation_id = 0
        self._failures = 0
        self._dial_at = 0.0

    def send(self, message: Request[R]) -> Promise[R]:
        """Promise the answer; fails when there is none to be had."""
        return self.ask(message, _reading(message))

    def ask(self, message: Message, read: Read[T]) -> Promise[T]:
        """Like :meth:`send`, with a reader of one's own; ProtocolViolation ends the connection."""
        request = _Request(message, read, self._scheduler.turn)
        if len(self._queued) + len(self._sent) >= REQUESTS_MAX:
            request.answer.fail(ConnectionError(f"{self} is too busy"))
            return request.answer
        if self._socket is None and self._dialling is None:
            if self._scheduler.monotonic() < self._dial_at:
                request.answer.fail(ConnectionError(f"{self} cannot be reached"))
                return request.answer
            self._dial()
        request.timer = self._scheduler.call_later(
            self._limits.timeout_seconds, self._timed_out, request
        )
        if self._is_ready and self._scheduler.monotonic() >= self._log_in_at:
            self._log_in()
        if self._is_ready:
            self._write(request)
        else:
            self._queued.append(request)
        return request.answer

    def __str__(self) -> str:
        return f"{self._host}:{self._port}"

    def close(self) -> None:
        self._end(ConnectionError("closed by us"))

    # Connecting

    def _dial(self) -> None:
        dialling = self._dialling = self._network.dial(self._host, self._port)
        dialling.when_done(self._dialled)

    def _dialled(self, dialling: Promise[StreamSocket]) -> None:
        try:
            sock = dialling.result()
        except OSError as error:
            if self._dialling is dialling:
                self._end(error)
            return
        if self._dialling is not dialling:
            sock.close()
            return
        self._dialling = None
        self._socket = sock
        self._network.watch_reading(sock, self._readable)
        asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        request = _Request(asked, _reading(asked), self._scheduler.turn)
        request.version = _API_VERSIONS_VERSION
        request.answer.when_done(partial(self._versions_known, sock))
        self._write(request)

    def _versions_known(self, sock: StreamSocket, answer: Promise[ApiVersionsResponse]) -> None:
        if self._socket is not sock:
            return  # the connection has ended, and everybody was told
        response = answer.result()
        if response.error_code != ErrorCode.NONE:
            self._end(ConnectionError(f"{self} refuses with error {response.error_code}"))
            return
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        self._spoken = {}
        if self._login is None:
            self._become_ready()
        else:
            self._log_in()

    def _become_ready(self) -> None:
        self._is_ready = True
        self._failures = 0
        # One that cannot be sent ends the connection, and those behind it with it.
        while self._queued and self._is_ready:
            self._write(self._queued.popleft())

    # Logging in

    def _log_in(self) -> None:
        """What is asked meanwhile waits; what was asked before is answered before."""
        assert self._login is not None
        assert self._socket is not None
        self._is_ready = False
        sasl = self._login.client()
        self._ask_for_login(sasl.start(), partial(self._shaken, self._socket, sasl))

    def _ask_for_login(self, message: Request[R], answered: Callable[[Promise[R]], None]) -> None:
        request = _Request(message, _reading(message), self._scheduler.turn)
        request.answer.when_done(answered)
        self._write(request)

    def _shaken(
        self, sock: StreamSocket, sasl: "SaslClient", answer: "Promise[SaslHandshakeResponse]"
    ) -> None:
        if self._socket is not sock:
            return
        try:
            following = sasl.shaken(answer.result())
        except LoginRefused as refusal:
            self._shut_out(refusal)
            return
        self._ask_for_login(following, partial(self._authenticated, sock, sasl))

    def _authenticated(
        self, sock: StreamSocket, sasl: "SaslClient", answer: "Promise[SaslAuthenticateResponse]"
    ) -> None:
        if self._socket is not sock:
            return
        response = answer.result()
        try:
            # At once: who refuses closes the connection behind it.
            sasl.check(response)
        except LoginRefused as refusal:
            self._shut_out(refusal)
            return
        # A step of SCRAM hashes the password thousands of times, which others would wait for.
        step = partial(sasl.received, response)
        following = self._scheduler.run_in_background(step, _LOGIN_LANE)
        following.when_done(partial(self._stepped, sock, sasl))

    def _stepped(
        self,
        sock: StreamSocket,
        sasl: "SaslClient",
        step: "Promise[SaslAuthenticateRequest | None]",
    ) -> None:
        if self._socket is not sock:
            return
        try:
            following = step.result()
        except LoginRefused as refusal:
            self._shut_out(refusal)
            return
        except ProtocolViolation as violation:
            self._end(violation)
            return
        if following is not None:
            self._ask_for_login(following, partial(self._authenticated, sock, sasl))
            return
        seconds = sasl.session_seconds
        self._log_in_at = math.inf if seconds is None else self._scheduler.monotonic() + seconds
        self._become_ready()

    def _shut_out(self, refusal: LoginRefused) -> None:
        log.warning("login refused by another node", node=str(self), reason=str(refusal))
        self._end(ConnectionError(f"{self} refuses our login: {refusal}"))

    # Sending

    def _version(self, message: Message) -> int:
        if self._versions is None:
            return _API_VERSIONS_VERSION
        if message.API_KEY == ApiKey.SASL_HANDSHAKE:
            return HANDSHAKE_VERSION
        known = self._spoken.get(message.API_KEY)
        if known is not None:
            return known
        api = APIS[message.API_KEY]
        low, high = self._versions.get(message.API_KEY, (0, -1))
        version = min(high, api.highest_stable_version)
        if version < max(low, api.lowest_version):
            raise ValueError(f"{self} does not speak our versions of {api.name}")
        self._spoken[message.API_KEY] = version
        return version

    def _write(self, request: _Request[Any]) -> None:
        correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        self._correlation_id = request.correlation_id = correlation_id
        message = request.message
        try:
            version = request.version = self._version(message)
            body = to_bytes(message, version)
        except ValueError as error:
            self._fail(request, error)
            return
        out = Writer()
        encode_request_header(
            out,
            api_key=message.API_KEY,
            version=version,
            correlation_id=correlation_id,
            client_id=self._client_id,
        )
        out.parts.append(body)
        self._sent.append(request)
        was_empty = not self._unsent
        self._unsent += frame(out.getvalue())
        if was_empty:
            self._flush()

    def _flush(self) -> None:
        sock = self._socket
        assert sock is not None
        try:
            while self._unsent:
                count = sock.send(bytes(self._unsent))
                del self._unsent[:count]
        except BlockingIOError:
            self._network.watch_writing(sock, self._writable)
        except OSError as error:
            self._end(error)

    def _writable(self) -> None:
        assert self._socket is not None
        self._network.unwatch_writing(self._socket)
        self._flush()

    # Receiving

    def _readable(self) -> None:
        sock, received = self._socket, self._received
        assert sock is not None
        try:
            count = sock.recv_into(received.free())
            if count == 0:
                raise ConnectionResetError(f"{self} has closed the connection")
            received.came(count)
            while self._socket is sock:
                answer = received.frame()
                if answer is None:
                    return
                self._answered(answer)
        except BlockingIOError:
            return
        except (OSError, ProtocolViolation) as error:
            self._end(error)

    def _answered(self, answer: memoryview) -> None:
        if not self._sent:
            raise ProtocolViolation("an answer that nobody has asked for")
        request = self._sent[0]
        if answer[:_CORRELATION_ID_BYTES] != request.correlation_id.to_bytes(4, "big"):
            raise ProtocolViolation("an answer out of turn")
        pos = _CORRELATION_ID_BYTES
        if response_header_version(request.message.API_KEY, request.version):
            pos = skip_tagged_fields(answer, pos)
        response = request.read(answer, pos, request.version)
        self._sent.popleft()
        if request.timer is not None:
            request.timer.cancel()
        request.answer.fulfil(response)

    # Ending

    def _timed_out(self, request: _Request[Any]) -> None:
        if not request.answer.done:
            self._end(TimeoutError(f"no answer from {self}"))

    def _fail(self, request: _Request[Any], error: Exception) -> None:
        if request.timer is not None:
            request.timer.cancel()
        request.answer.fail(error)

    def _end(self, error: Exception) -> None:
        """Drop the connection and everything that waits for it."""
        sock, self._socket = self._socket, None
        self._dialling = None
        self._versions = None
        self._is_ready = False
        self._log_in_at = math.inf
        if sock is not None:
            self._network.unwatch_reading(sock)
            if self._unsent:
                self._network.unwatch_writing(sock)
            sock.close()
        limits = self._limits
        pause = min(limits.backoff_max_seconds, limits.backoff_seconds * (1 << self._failures))
        self._failures = min(self._failures + 1, 16)
        self._dial_at = self._scheduler.monotonic() + pause
        waiting = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        self._unsent.clear()
        self._received = FrameBuffer(ANSWER_BYTES_MAX)
        failure = error if isinstance(error, OSError) else ConnectionError(str(error))
        for request in waiting:
            self._fail(request, failure)


def _reading(message: Request[R]) -> Read[R]:
    """How the answer to ``message`` is read: whole, by the generated codec."""
    response = response_class(type(message))

    def read(answer: memoryview, pos: int, version: int) -> R:
        if message.API_KEY == ApiKey.API_VERSIONS and any(answer[pos : pos + 2]):
            version = 0  # a side that does not know our version answers in its own
        return from_buffer(response, bytes(answer), pos, version)[0]

    return read
