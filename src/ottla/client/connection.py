"""One connection to one broker: requests out, answers back, in order.

A connection that failed in any way is closed and stays so: after a timeout or half an answer nobody
knows where the next answer begins.
"""

import socket
import ssl
from collections import deque
from collections.abc import Iterable, Sequence
from io import BufferedReader
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple, TypeVar, cast

from ottla import __version__
from ottla.client.errors import TlsFailed, check
from ottla.common.errors import (
    ErrorCode,
    ProtocolViolation,
    SaslAuthenticationFailed,
    UnsupportedVersion,
)
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.frame import frame
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.generated.response_header import ResponseHeader
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeResponse
from ottla.protocol.headers import encode_request_header, response_header_version
from ottla.protocol.message import Message, from_buffer
from ottla.protocol.primitives import Writer
from ottla.security.mechanism import HANDSHAKE_VERSION, LoginRefused
from ottla.security.sasl_client import SaslLogin

M = TypeVar("M", bound=Message)

SOFTWARE_NAME: Final = "ottla"
_SIZE: Final = Struct(">i")
_READ_BUFFER: Final = 64 << 10
_CORRELATION_ID_MAX: Final = (1 << 31) - 1
_PIECES_MAX: Final = 256
"""Of one call; systems take at least this many, most of them more."""
_TLS_ALERT: Final = 0x150303
"""How TLS begins to say that it was not spoken to in TLS; nobody answers with so many bytes."""
_HEADER_MAX: Final = 4 << 10
"""Brokers send nothing in the header of an answer but its number; tagged fields may come."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Sent(NamedTuple):
    correlation_id: int
    api_key: int
    version: int


class RawAnswer(NamedTuple):
    frame: memoryview
    body: int
    """Where it begins in the frame."""
    sent: Sent


class FrameRoom:
    """Memory for one frame at a time: what was taken before is overwritten by the next."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]


class Connection:
    """Knows which versions its broker speaks; several requests may be on their way at once."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_seconds: float,
        response_size_max: int,
        tls: ssl.SSLContext | None = None,
        login: SaslLogin | None = None,
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._response_size_max = response_size_max
        self._correlation_id = 0
        self._sent: deque[Sent] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self.session_seconds: float | None = None
        """After which time to log in again; None for never."""
        self._socket = socket.create_connection(address, timeout_seconds)
        self._reader: BufferedReader | None = None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address.host)
            self._reader = cast(
                "BufferedReader", self._socket.makefile("rb", buffering=_READ_BUFFER)
            )
            self._learn_versions(timeout_seconds)
            if login is not None:
                self.log_in(login, timeout_seconds)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        return self._reader is None

    @property
    def in_flight(self) -> int:
        """How many answers are still to be received."""
        return len(self._sent)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._sent.clear()
        self._socket.close()

    def _learn_versions(self, timeout_seconds: float) -> None:
        """Ask for ApiVersions in our newest form, then in the oldest if the broker is older."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        highest = APIS[ApiKey.API_VERSIONS].highest_stable_version
        response = self.ask(request, ApiVersionsResponse, highest, timeout_seconds)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = self.ask(ApiVersionsRequest(), ApiVersionsResponse, 0, timeout_seconds)
        check(response.error_code)
        self._versions = {
            item.api_key: (item.min_version, item.max_version) for item in response.api_keys
        }

    def log_in(self, login: SaslLogin, timeout_seconds: float) -> None:
        """Say who we are; SaslAuthenticationFailed when we are not let in. Nothing is in flight."""
        sasl = login.client()
        start = sasl.start()
        try:
            shaken = self.ask(start, SaslHandshakeResponse, HANDSHAKE_VERSION, timeout_seconds)
            following: SaslAuthenticateRequest | None = sasl.shaken(shaken)
            version = self.version(ApiKey.SASL_AUTHENTICATE)
            while following is not None:
                answer = self.ask(following, SaslAuthenticateResponse, version, timeout_seconds)
                following = sasl.received(answer)
        except LoginRefused as refusal:
            self.close()
            raise SaslAuthenticationFailed(str(refusal)) from None
        self.session_seconds = sasl.session_seconds

    def version(self, api_key: int, highest: int | None = None) -> int:
        """The newest version of an API that both sides speak, at most ``highest``."""
        api = APIS[api_key]
        ours = api.highest_stable_version if highest is None else highest
        lowest, newest = self._versions.get(api_key, (0, -1))
        version = min(ours, newest)
        if version < max(lowest, api.lowest_version):
            raise UnsupportedVersion(
                f"{self.address} does not serve {api.name}"
                if newest < 0
                else f"{self.address} serves {api.name} in versions {lowest} to {newest}, "
                f"we speak {api.lowest_version} to {ours}"
            )
        return version

    def serves(self, api_key: int) -> bool:
        return api_key in self._versions

    def ask(self, request: Message, answer: type[M], version: int, timeout_seconds: float) -> M:
        """Send a request and wait for its answer."""
        self.send(request, version, timeout_seconds)
        return self.receive(answer, timeout_seconds)

    def send(
        self, request: Message, version: int, timeout_seconds: float, *, answered: bool = True
    ) -> None:
        """Send a request; unless it is one without an answer, :meth:`receive` is to follow."""
        out = self._header(request.API_KEY, version)
        request.encode(out, version)
        self._send([frame(out.getvalue())], timeout_seconds)
        if answered:
            self._sent.append(Sent(self._correlation_id, request.API_KEY, version))

    def send_parts(
        self,
        api_key: int,
        version: int,
        parts: Sequence[bytes | bytearray],
        timeout_seconds: float,
    ) -> None:
        """As :meth:`send`, of a body that is encoded already; its pieces are not copied."""
        header = self._header(api_key, version).getvalue()
        size = len(header) + sum(map(len, parts))
        self._send([_SIZE.pack(size) + header, *parts], timeout_seconds)
        self._sent.append(Sent(self._correlation_id, api_key, version))

    def _header(self, api_key: int, version: int) -> Writer:
        """Of the next request."""
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        out = Writer()
        encode_request_header(
            out,
            api_key=api_key,
            version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        return out

    def _send(self, pieces: Sequence[bytes | bytearray], timeout_seconds: float) -> None:
        try:
            self._socket.settimeout(timeout_seconds)
            if len(pieces) == 1 or isinstance(self._socket, ssl.SSLSocket):
                self._socket.sendall(b"".join(pieces) if len(pieces) > 1 else pieces[0])
                return
            left = deque(memoryview(piece) for piece in pieces if piece)
            while left:
                sent = self._socket.sendmsg(islice(left, _PIECES_MAX))
                while left and sent >= len(left[0]):
                    sent -= len(left.popleft())
                if sent:
                    left[0] = left[0][sent:]
        except OSError:
            self.close()
            raise

    def receive(self, answer: type[M], timeout_seconds: float) -> M:
        """The answer to the oldest request that has none yet."""
        sent = self._sent.popleft()
        assert sent.api_key == answer.API_KEY
        try:
            self._socket.settimeout(timeout_seconds)
            return self._decode(answer, sent, self._receive_frame())
        except (OSError, ProtocolViolation):
            self.close()
            raise

    def receive_raw(self, api_key: int, timeout_seconds: float, room: "FrameRoom") -> RawAnswer:
        """As :meth:`receive`, but the frame itself, read into ``room`` and not decoded."""
        sent = self._sent.popleft()
        assert sent.api_key == api_key
        try:
            self._socket.settimeout(timeout_seconds)
            frame = room.take(self._receive_size())
            if self._reader is None or self._reader.readinto(frame) < len(frame):
                raise ConnectionResetError(f"{self.address} closed the connection")
            return RawAnswer(frame, self._check_header(sent, bytes(frame[:_HEADER_MAX])), sent)
        except (OSError, ProtocolViolation):
            self.close()
            raise

    def _receive_size(self) -> int:
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if size >> 8 == _TLS_ALERT:
            raise TlsFailed("it speaks TLS", [])
        if not _SIZE.size <= size <= self._response_size_max:
            raise ProtocolViolation(
                f"{self.address} sent an answer of {size} bytes, "
                f"at most {self._response_size_max} are taken"
            )
        return int(size)

    def _receive_frame(self) -> bytes:
        return self._read(self._receive_size())

    def _read(self, size: int) -> bytes:
        if self._reader is None:
            raise ConnectionResetError(f"the connection to {self.address} is closed")
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionResetError(f"{self.address} closed the connection")
        return data

    def _check_header(self, sent: Sent, data: bytes) -> int:
        """Where the body begins."""
        header, pos = from_buffer(
            ResponseHeader, data, 0, response_header_version(sent.api_key, sent.version)
        )
        if header.correlation_id != sent.correlation_id:
            raise ProtocolViolation(f"{self.address} answered another request")
        return pos

    def _decode(self, answer: type[M], sent: Sent, data: bytes) -> M:
        version = sent.version
        pos = self._check_header(sent, data)
        if sent.api_key == ApiKey.API_VERSIONS and data[pos : pos + 2] == b"\x00\x23":
            version = 0  # an older broker refuses our version in the only form both know
        message, end = from_buffer(answer, data, pos, version)
        if end != len(data):
            raise ProtocolViolation(f"{self.address}: {len(data) - end} bytes behind an answer")
        return message


def close_unanswered(connections: Iterable[Connection]) -> None:
    """Close those whose answers nobody will read any more: the next reader would take them."""
    for connection in connections:
        if connection.in_flight:
            connection.close()
