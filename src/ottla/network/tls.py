"""TLS upon a network: the same sockets for those above, with all that is between them encrypted.

OpenSSL works on two buffers in memory, and never touches a socket: what came is put into the one,
what is to go is taken from the other. So a connection neither knows nor cares, and there is one way
for frames. Files cannot be sent past the process: they are read, and encrypted.

Rules:
1. Nothing of a peer is handed on, and nothing is sent to it, before the handshake is over.
2. A handshake costs the processor a millisecond: those that can go on are taken in turn, a few
   milliseconds at a time, so that a crowd of them does not hold up the clients that are served.
3. A handshake has its time, and there are only so many at once: the oldest makes room, and does so
   too before descriptors are taken that are not for clients.
4. What is encrypted counts as sent. It goes when the socket takes it, though nobody above waits.
5. A peer may change its keys, and ask us to change ours: that costs the processor more than data
   does, and an answer. Who sends hardly anything else is read from a little at a time; who sends
   nothing else, or takes no answers, is let go.
"""

import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from ottla.common.buffers import ReadableFile
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.promise import Promise
from ottla.network.server import descriptors_for_clients
from ottla.network.sockets import MSG_MORE, DiallingNetwork, Listening, StreamSocket
from ottla.observability.logging import logger

log = logger(__name__)

HANDSHAKE_SECONDS: Final = 30.0
HANDSHAKES_MAX: Final = 1_000
"""That have begun and are not over, of all that came to us."""
SHAKING_SECONDS: Final = 0.002
"""How long the handshakes of one turn may keep the others waiting; one is always taken."""
RECEIVE_BYTES: Final = 256 * 1024
"""What is read from the socket at once: a few records, each of at most 16 KiB."""
RECEIVE_FIRST_BYTES: Final = 32 * 1024
"""As long as it is not known that this is data, for the most part."""
IDLE_BYTES_MAX: Final = 64 * 1024
"""Some data is in so much, whatever the peer's records are."""
ENCRYPTED_AT_ONCE: Final = 256 * 1024
"""So much is encrypted ahead of what the socket takes."""
UNSENT_MAX: Final = 4 * ENCRYPTED_AT_ONCE
"""With what TLS itself has to say; data alone is never so much."""

INTERNAL_ERROR: Final = bytes.fromhex("15030300020250")
"""The alert for a peer that speaks no TLS, of which OpenSSL makes none; clients know it."""


class TlsContexts(Protocol):
    """How both sides of a connection are made; a keystore may be replaced while we serve."""

    @property
    def server(self) -> ssl.SSLContext: ...

    @property
    def client(self) -> ssl.SSLContext: ...


class Watcher(Protocol):
    """Waits for the socket below."""

    def blocked(self, sock: "TlsSocket") -> None: ...

    def closing(self, sock: "TlsSocket") -> None: ...


class TlsSocket:
    """A socket upon a socket; see the module."""

    __slots__ = (
        "_encrypted",
        "_given",
        "_idle",
        "_incoming",
        "_may_have_more",
        "_outgoing",
        "_raw",
        "_received",
        "_room",
        "_taken",
        "_tls",
        "_watcher",
        "failure",
        "is_closed",
        "is_open",
        "is_watched_for_writing",
        "on_readable",
        "on_writable",
    )

    def __init__(
        self,
        raw: StreamSocket,
        context: ssl.SSLContext,
        received: memoryview,
        watcher: "Watcher",
        server_hostname: str | None = None,
    ) -> None:
        """``received`` is a buffer that all share; ``server_hostname`` is what we dialled."""
        self._raw = raw
        self._received = received
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        self._encrypted = memoryview(b"")
        """What the socket has not taken yet."""
        self._may_have_more = False
        """Whether the last reader had no room for more, or nobody has read yet."""
        self._room = RECEIVE_FIRST_BYTES
        """So much is received next."""
        self._taken = self._given = 0
        """What was received last, and what has come out of it."""
        self._idle = 0
        """What was received since anything came out."""
        self.is_open = False
        """Whether the handshake is over."""
        self.is_closed = False
        self.failure: OSError | None = None
        """What a caller that reads is to be told."""
        self._watcher = watcher
        self.on_readable: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.is_watched_for_writing = False

    @property
    def raw(self) -> StreamSocket:
        return self._raw

    @property
    def has_more(self) -> bool:
        """Whether a reader that wants it may find something without anything coming."""
        return self.on_readable is not None and not self.is_closed and self._may_have_more

    @property
    def is_flushed(self) -> bool:
        return not self._encrypted and not self._outgoing.pending

    @property
    def _unsent(self) -> int:
        return len(self._encrypted) + self._outgoing.pending

    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer has shown and that was verified, in DER."""
        return self._tls.getpeercert(binary_form=True)

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is over. OSError when it has failed."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if not self._receive():
                    return False
            except OSError:
                if not self._outgoing.pending:
                    self._encrypted = memoryview(INTERNAL_ERROR)
                with suppress(OSError):
                    self.flush()  # the alert says why
                raise
            else:
                self.is_open = self._may_have_more = True
                self.flush()
                return True

    def recv_into(self, buffer: memoryview, /) -> int:
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            raise BlockingIOError
        filled, size = 0, len(buffer)
        while filled < size:
            try:
                count = int(self._tls.read(size - filled, buffer[filled:]))
            except ssl.SSLWantReadError:
                if not self._was_data() or not self._receive():
                    self._may_have_more = False
                    break
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                count = 0
            if not count:
                # The end is told by another read, for which nothing more need come.
                self._may_have_more = True
                return filled
            filled += count
            self._given += count
        else:
            self._may_have_more = True
        # TLS has something to say itself, as a new key.
        if self._outgoing.pending and not self.flush() and self._unsent > UNSENT_MAX:
            raise ConnectionAbortedError("the peer asks for keys, and does not read")
        if not filled:
            raise BlockingIOError
        return filled

    def _was_data(self) -> bool:
        """Whether what was received last was worth it; if not, others have their turn first."""
        taken, given = self._taken, self._given
        if not taken:
            return True
        self._taken = self._given = 0
        self._idle = 0 if given else self._idle + taken
        if self._idle > IDLE_BYTES_MAX:
            raise ConnectionAbortedError("the peer sends no data")
        if 2 * given >= taken:
            self._room = min(2 * self._room, RECEIVE_BYTES)
            return True
        if taken >= RECEIVE_FIRST_BYTES:
            self._room = RECEIVE_FIRST_BYTES
        return False

    def _receive(self) -> bool:
        """Take what the socket has; whether there was anything."""
        try:
            count = self._raw.recv_into(self._received[: self._room])
        except BlockingIOError:
            return False
        self._taken = count
        if count:
            self._incoming.write(self._received[:count])
        else:
            self._incoming.write_eof()
        return True

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        if self.failure is not None:
            raise self.failure
        if not self.is_open or not self.flush():
            raise BlockingIOError
        sent = self._tls.write(memoryview(data)[:ENCRYPTED_AT_ONCE])
        if not flags & MSG_MORE or self._outgoing.pending >= ENCRYPTED_AT_ONCE:
            self.flush()
        return sent

    def send_file(self, file: ReadableFile, position: int, count: int) -> int:
        if not self.is_open or (self._encrypted and not self.flush()):
            raise BlockingIOError
        data = file.read_at(position, min(count, ENCRYPTED_AT_ONCE))
        if not data:
            return 0
        sent = self._tls.write(data)
        self.flush()
        return sent

    def flush(self) -> bool:
        """Hand over what is encrypted; whether the socket has taken it all."""
        try:
            while True:
                if not self._encrypted:
                    if not self._outgoing.pending:
                        return True
                    self._encrypted = memoryview(self._outgoing.read())
                self._encrypted = self._encrypted[self._raw.send(self._encrypted) :]
        except BlockingIOError:
            self._watcher.blocked(self)
            return False

    def close(self) -> None:
        if self.is_closed:
            return
        if self.is_open:
            with suppress(OSError):
                self._tls.unwrap()  # tells the peer that nothing was cut off
            with suppress(OSError):
                self.flush()
        self.is_closed = True
        self._watcher.closing(self)
        self._raw.close()

    def fileno(self) -> int:
        return self._raw.fileno()

    def getsockname(self) -> Any:
        return self._raw.getsockname()

    def getpeername(self) -> Any:
        return self._raw.getpeername()


class _Handshake:
    """One that is not over."""

    __slots__ = ("is_queued", "over", "sock", "timer")

    def __init__(self, sock: TlsSocket, over: Callable[[OSError | None], None]) -> None:
        self.sock = sock
        self.over = over
        """Called once: with what went wrong, or None."""
        self.is_queued = False
        self.timer: Cancellable | None = None


class _TlsListening:
    """A listener of the network below, and the handshakes that it has begun."""

    def __init__(self, below: Listening, close_handshakes: Callable[[], None]) -> None:
        self._below = below
        self._close_handshakes = close_handshakes
        self.port = below.port

    def start(self) -> None:
        self._below.start()

    def pause(self, seconds: float) -> None:
        self._below.pause(seconds)

    def close(self) -> None:
        self._below.close()
        self._close_handshakes()


class TlsNetwork:
    """Implements ``DiallingNetwork`` upon another one."""

    def __init__(
        self, network: DiallingNetwork, scheduler: Scheduler, contexts: TlsContexts
    ) -> None:
        self._network = network
        self._scheduler = scheduler
        self._contexts = contexts
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._accepting: dict[TlsSocket, _Handshake] = {}
        """Those that peers began, the oldest first."""
        self._queue: deque[_Handshake] = deque()
        """Something came for them."""
        self.handshakes_failed = 0

    @property
    def descriptor_limit(self) -> int:
        return self._network.descriptor_limit

    def listen(self, host: str, port: int, accepted: Callable[[StreamSocket], None]) -> Listening:
        """``accepted`` gets only those whose handshake is over; others go with the listener."""
        begun: dict[_Handshake, None] = {}
        below = self._network.listen(host, port, lambda raw: self._accepted(raw, accepted, begun))

        def close_handshakes() -> None:
            for handshake in list(begun):
                self._end(handshake, ConnectionAbortedError("the listener is closed"))

        return _TlsListening(below, close_handshakes)

    def _accepted(
        self,
        raw: StreamSocket,
        accepted: Callable[[StreamSocket], None],
        begun: dict[_Handshake, None],
    ) -> None:
        is_scarce = raw.fileno() >= descriptors_for_clients(self.descriptor_limit)
        if self._accepting and (is_scarce or len(self._accepting) >= HANDSHAKES_MAX):
            oldest = next(iter(self._accepting.values()))
            self._end(oldest, ConnectionAbortedError("there are too many handshakes"))
        sock = TlsSocket(raw, self._contexts.server, self._received, self)

        def over(error: OSError | None) -> None:
            del begun[self._accepting.pop(sock)]
            if error is None:
                accepted(sock)
                return
            self.handshakes_failed += 1
            log.info("connection closed: TLS handshake", peer=_host(raw), reason=str(error))
            sock.close()

        handshake = self._accepting[sock] = self._begin(sock, over)
        begun[handshake] = None

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        """Connect and shake hands; fails when the peer is not the one that was meant."""
        promise: Promise[StreamSocket] = Promise(self._scheduler.turn)

        def dialled(raw: Promise[StreamSocket]) -> None:
            try:
                context = self._contexts.client
                sock = TlsSocket(raw.result(), context, self._received, self, host)
            except OSError as error:
                promise.fail(error)
                return

            def over(error: OSError | None) -> None:
                if error is None:
                    promise.fulfil(sock)
                else:
                    sock.close()
                    promise.fail(error)

            self._queue_up(self._begin(sock, over))

        self._network.dial(host, port).when_done(dialled)
        return promise

    # Handshakes

    def _begin(self, sock: TlsSocket, over: Callable[[OSError | None], None]) -> _Handshake:
        handshake = _Handshake(sock, over)
        late = TimeoutError(f"the handshake was not over after {HANDSHAKE_SECONDS:.0f} s")
        handshake.timer = self._scheduler.call_later(HANDSHAKE_SECONDS, self._end, handshake, late)
        self._network.watch_reading(sock.raw, partial(self._queue_up, handshake))
        return handshake

    def _queue_up(self, handshake: _Handshake) -> None:
        """Let it wait for its turn; until then nothing is read for it."""
        if handshake.is_queued:
            return
        handshake.is_queued = True
        self._network.unwatch_reading(handshake.sock.raw)
        if not self._queue:
            self._scheduler.call_soon(self._take_some)
        self._queue.append(handshake)

    def _take_some(self) -> None:
        now = self._scheduler.monotonic
        ends = now() + SHAKING_SECONDS
        try:
            while self._queue:
                self._go_on(self._queue.popleft())
                if now() > ends:
                    break
        finally:
            # A mistake that one of them shows is told, and costs the others nothing.
            if self._queue:
                self._scheduler.call_soon(self._take_some)

    def _go_on(self, handshake: _Handshake) -> None:
        if handshake.timer is None:
            return  # it has ended meanwhile
        sock = handshake.sock
        handshake.is_queued = False
        try:
            if sock.shake_hands():
                self._end(handshake, None)
            else:
                self._network.watch_reading(sock.raw, partial(self._queue_up, handshake))
        except OSError as error:
            self._end(handshake, error)

    def _end(self, handshake: _Handshake, error: OSError | None) -> None:
        if handshake.timer is None:
            return
        handshake.timer.cancel()
        handshake.timer = None
        self._network.unwatch_reading(handshake.sock.raw)
        handshake.over(error)

    # Watching

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, TlsSocket)
        sock.on_readable = callback
        self._network.watch_reading(sock.raw, partial(self._readable, sock))
        if sock.has_more:
            self._scheduler.call_soon(self._go_on_reading, sock)

    def unwatch_reading(self, sock: StreamSocket) -> None:
        assert isinstance(sock, TlsSocket)
        sock.on_readable = None
        self._network.unwatch_reading(sock.raw)

    def _readable(self, sock: TlsSocket) -> None:
        callback = sock.on_readable
        if callback is not None:
            callback()
            if sock.has_more:
                self._scheduler.call_soon(self._go_on_reading, sock)

    def _go_on_reading(self, sock: TlsSocket) -> None:
        """Nothing more need come for what was received already."""
        if sock.has_more:
            self._readable(sock)

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, TlsSocket)
        sock.on_writable = callback
        self.blocked(sock)

    def unwatch_writing(self, sock: StreamSocket) -> None:
        assert isinstance(sock, TlsSocket)
        sock.on_writable = None  # the socket below is let go when it is next writable

    def blocked(self, sock: TlsSocket) -> None:
        """The socket below is full, or somebody waits until it is not."""
        if not sock.is_watched_for_writing:
            sock.is_watched_for_writing = True
            self._network.watch_writing(sock.raw, partial(self._writable, sock))

    def _writable(self, sock: TlsSocket) -> None:
        try:
            if not sock.flush():
                return
        except OSError as error:
            sock.failure = error
        callback = sock.on_writable
        if callback is not None:
            callback()
        elif sock.failure is not None:
            self._readable(sock)
        if sock.on_writable is None:
            self._let_go(sock)

    def _let_go(self, sock: TlsSocket) -> None:
        if sock.is_watched_for_writing and (sock.is_flushed or sock.failure is not None):
            sock.is_watched_for_writing = False
            self._network.unwatch_writing(sock.raw)

    def closing(self, sock: TlsSocket) -> None:
        """The socket below is about to be closed."""
        self._network.unwatch_reading(sock.raw)
        if sock.is_watched_for_writing:
            sock.is_watched_for_writing = False
            self._network.unwatch_writing(sock.raw)


def _host(raw: StreamSocket) -> str:
    try:
        return str(raw.getpeername()[0])
    except OSError:
        return "gone"
