"""One client's connection: frames in, answers out, in order.

Reading: one buffer serves all connections, since a frame that is whole is answered before the next
read. Only a frame that has not come whole gets a buffer of its own, of its own size, which counts
against ``queued.max.request.bytes``. So an idle connection costs no buffer.

Writing: the answers of a turn leave at its end, small ones by one send; what the socket refuses is
queued. A connection with much unsent or unanswered is not read from until that has shrunk.

Rules:
1. Answers leave in the order of their requests: an answer that is done early waits in its slot.
2. A length is believed only after it was compared with the limit; nothing is allocated before.
3. A peer that breaks the protocol loses its connection, nobody else theirs.
"""

import math
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from ottla.common.authorization import ANONYMOUS, Granted, Principal
from ottla.common.buffers import Answer, ReadableFile, Region
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ProtocolViolation
from ottla.common.promise import Promise
from ottla.network.sockets import MSG_MORE, Network, StreamSocket
from ottla.observability.logging import logger

log = logger(__name__)

_LENGTH = Struct(">i")
RECEIVE_BYTES = 1 << 20
"""What one read takes at most."""
IN_FLIGHT_LIMIT = 128
"""Unanswered requests of one connection, beyond which it is not read from."""
UNSENT_LIMIT = 1 << 20
"""Bytes of answers in memory that a slow reader may leave unsent before it is not read from."""
TURN_SECONDS = 0.01
"""How long the frames of one read may keep the others waiting."""
GATHERED_BYTES = 256 * 1024
"""Answers of one turn are sent before its end when they are so many."""
JOINED_BYTES = 64 * 1024
"""Answers are copied into one send as long as it has no more than this."""
GROWTH_BYTES = 64 * 1024
"""How much room a frame that comes in pieces gets at first."""
SMALL_FILE_REGION = 16 * 1024
"""Below this it is cheaper to copy records into the answer than to call sendfile."""

AnswerFrame = Callable[["Connection", memoryview], "Answer | Promise[Answer] | None"]
"""Answers a frame (without its length): now, later, or (acks=0) not at all."""


class RequestMemory(Protocol):
    """The bytes that all connections together may hold for requests."""

    def take(self, connection: "Connection", size: int) -> bool: ...

    def hold(self, connection: "Connection", size: int) -> bool: ...

    def give_back(self, size: int) -> None: ...


class Connection:
    __slots__ = (
        "_answer_frame",
        "_call_later",
        "_closed_callback",
        "_ending",
        "_frame_limit",
        "_in_flight_limit",
        "_is_full",
        "_is_gathering",
        "_later",
        "_memory",
        "_memory_after_login",
        "_mute_timer",
        "_muted_until",
        "_network",
        "_now",
        "_outgoing",
        "_partial",
        "_partial_filled",
        "_partial_size",
        "_reading",
        "_receive_view",
        "_rest",
        "_slots",
        "_socket",
        "_starved",
        "_turn",
        "_unsent",
        "closed",
        "granted",
        "is_active",
        "last_active",
        "listener_name",
        "local_host",
        "local_port",
        "login",
        "login_by",
        "peer_host",
        "principal",
    )

    def __init__(
        self,
        sock: StreamSocket,
        network: Network,
        *,
        listener_name: str,
        receive_buffer: memoryview,
        frame_limit: int,
        memory: RequestMemory,
        memory_before_login: RequestMemory | None = None,
        answer_frame: AnswerFrame,
        closed: Callable[["Connection"], None],
        scheduler: Scheduler,
    ) -> None:
        self._socket = sock
        self._network = network
        self._receive_view = receive_buffer
        self._frame_limit = frame_limit
        self._memory = memory if memory_before_login is None else memory_before_login
        self._memory_after_login = memory
        self._answer_frame = answer_frame
        self._now = scheduler.monotonic
        self._later = scheduler.call_soon
        self._call_later = scheduler.call_later
        self._turn = scheduler.turn
        self._rest: bytearray | None = None
        """Frames that came in one read and wait for the next turn."""
        self._closed_callback = closed
        self._ending = False
        """No more is read, and what is owed is the last that is sent."""
        self._partial: bytearray | None = None
        self._partial_filled = 0
        self._partial_size = 0
        self._starved = False
        """Whether there is no memory for more."""
        self._muted_until = 0.0
        self._mute_timer: Cancellable | None = None
        """While it is there, a quota holds up what the client sends."""
        self._slots: deque[Answer | Promise[Answer]] = deque()
        """What is owed, in the order of requests, from the first that is not there yet on."""
        self._in_flight_limit = IN_FLIGHT_LIMIT
        """0 while one must be answered before the next is read."""
        self._outgoing: deque[bytes | memoryview | Region] = deque()
        self._unsent = 0
        self._is_gathering = False
        """Whether what is outgoing is to be sent at the end of the turn."""
        self._is_full = False
        """Whether the socket has refused something, and is watched until it takes more."""
        self.closed = False
        self.is_active = False
        """Something came, or an answer went on, since the last sweep; cheaper than a clock."""
        self.last_active = 0.0
        self.listener_name = listener_name
        local, peer = sock.getsockname(), sock.getpeername()
        self.local_host, self.local_port = local[0], local[1]
        self.peer_host: str = peer[0]
        self.principal = ANONYMOUS
        """Whose requests they are: nobody's in particular, until somebody has logged in."""
        self.granted: Granted = {}
        self.login: object | None = None
        """How far a login has come, for what answers its frames (`network/login.py`)."""
        self.login_by = math.inf
        """When the login must be over, or the connection is; by the monotonic clock."""
        self._reading = True
        network.watch_reading(sock, self.readable)

    # Reading

    @property
    def waits_for_us(self) -> bool:
        """Whether it is our turn: an answer is owed, and none waits for the peer to read it."""
        return bool(self._slots) and not self._outgoing

    def readable(self) -> None:
        self.is_active = True
        self._guarded(self._read_shared if self._partial is None else self._read_partial)

    def _guarded(self, take: Callable[[], None]) -> None:
        try:
            take()
        except OSError:
            self.close()
        except ProtocolViolation as violation:
            self._violated(violation)
        except Exception:
            # A mistake of ours must not cost the others their service.
            log.exception("connection closed: an internal error of the broker", peer=self.peer_host)
            self.close()

    def _read_shared(self) -> None:
        view = self._receive_view
        try:
            filled = self._socket.recv_into(view)
        except BlockingIOError:
            return
        if filled == 0:
            self._end_with_turn()
            return
        self._take_frames(view, filled)

    def _take_frames(self, view: memoryview, filled: int) -> None:
        """Answer the frames in ``view``; what must wait for another turn is kept."""
        pos = 0
        unpack = _LENGTH.unpack_from
        now = self._now
        turn_ends = now() + TURN_SECONDS
        while filled - pos >= 4:
            (size,) = unpack(view, pos)
            end = pos + 4 + size
            # A login in one of these frames raises the limit for those behind it.
            if end > filled or size < 0 or size > self._frame_limit:
                break
            if end < filled:
                self._turn.is_crowd = True
            self._handle(view[pos + 4 : end])
            if self.closed:
                return
            pos = end
            if now() > turn_ends or not self._reading_allowed():
                if pos < filled:
                    self._rest = bytearray(view[pos:filled])
                break
        if self._rest is None:
            if pos < filled:
                self._begin_partial(view[pos:filled])
            if not self._reading_allowed():
                self._pause()
        else:
            self._pause()
            if self._reading_allowed():
                self._resume()

    def _go_on(self) -> None:
        """Take up what was left of the last read when its turn was over."""
        rest = self._rest
        # It was asked for by each answer that went; by now there may be too many again.
        if self.closed or rest is None or not self._reading_allowed():
            return
        self._rest = None
        self._reading = True
        self._network.watch_reading(self._socket, self.readable)
        self._guarded(lambda: self._take_frames(memoryview(rest), len(rest)))

    def _begin_partial(self, rest: memoryview) -> None:
        """Keep the beginning of a frame; the shared buffer is the next connection's."""
        self._partial = bytearray(rest)
        self._partial_filled = len(rest)
        self._partial_size = 4
        if len(rest) >= 4:
            self._expect()

    def _expect(self) -> None:
        """Learn how long the frame is, and wait if all connections together hold too much."""
        assert self._partial is not None
        (size,) = _LENGTH.unpack_from(self._partial, 0)
        if size <= 0 or size > self._frame_limit:
            raise ProtocolViolation(f"a frame of {size} bytes; {self._frame_limit} are allowed")
        if self._memory.take(self, size):
            self._partial_size = size + 4
        else:
            self._starved = True
            self._pause()

    def hold(self, size: int) -> None:
        """Count a request that is kept while it waits; without room for more nothing is read."""
        if not self._memory.hold(self, size):
            self._starved = True

    def let_go(self, size: int) -> None:
        """A request that was held is kept no more, though its answer may still be owed."""
        self._memory.give_back(size)

    def memory_is_free(self) -> None:
        """Go on reading, for which there was no memory."""
        if self.closed or not self._starved:
            return
        self._starved = False
        if self._partial is not None and self._partial_size == 4 and self._partial_filled >= 4:
            self._expect()
        if self._reading_allowed():
            self._resume()

    def _read_partial(self) -> None:
        partial = self._partial
        assert partial is not None
        filled, wanted = self._partial_filled, self._partial_size
        if filled == len(partial):
            # Room grows with what has come, not with what was announced.
            partial += bytes(min(wanted - filled, max(GROWTH_BYTES, 3 * filled)))
        with memoryview(partial) as view:
            try:
                received = self._socket.recv_into(view[filled:])
            except BlockingIOError:
                return
        if received == 0:
            self._end_with_turn()
            return
        filled += received
        self._partial_filled = filled
        if filled < wanted:
            return
        if wanted == 4:
            self._expect()
            return
        self._partial = None
        memory = self._memory  # which is another after a login
        try:
            self._handle(memoryview(partial)[4:])
        finally:
            memory.give_back(wanted - 4)
        if not self.closed and not self._reading_allowed():
            self._pause()

    def _handle(self, frame: memoryview) -> None:
        answer = self._answer_frame(self, frame)
        if isinstance(answer, Promise):
            if not answer.done:
                self._slots.append(answer)
                answer.when_done(self._completed)
                return
            answer = answer.result()
        if answer is None:
            return
        if self._slots:
            self._slots.append(answer)
        else:
            self._send(answer)

    def _completed(self, promise: Promise[Answer]) -> None:
        """Send what is owed, up to the first that is not there yet."""
        if self.closed:
            return
        try:
            promise.result()  # one that has failed ends the connection whatever is before it
            slots = self._slots
            while slots:
                answer = slots[0]
                if isinstance(answer, Promise):
                    if not answer.done:
                        break
                    answer = answer.result()
                slots.popleft()
                if answer is not None:
                    self._send(answer)
        except OSError:
            self.close()
            return
        except ProtocolViolation as violation:
            self._violated(violation)
            return
        except Exception:
            # Its answer will not come, and all behind it would wait for ever.
            log.exception("connection closed: an internal error of the broker", peer=self.peer_host)
            self.close()
            return
        if self._ending:
            self._close_if_ended()
        elif not self._reading and self._reading_allowed():
            self._resume()

    # Writing

    def _send(self, answer: Answer) -> None:
        """Have it sent at the end of the turn, with all others of this connection."""
        if type(answer) is bytes:
            self._outgoing.append(answer)
            self._unsent += len(answer)
        else:
            for segment in answer:
                self._queue(segment)  # type: ignore[arg-type]
        if self._is_full:
            return
        if self._unsent >= GATHERED_BYTES:
            self._write_out()
        elif not self._is_gathering:
            self._is_gathering = True
            self._turn.send_at_end(self._send_gathered)

    def _send_gathered(self) -> None:
        self._is_gathering = False
        if self.closed or self._is_full:
            return
        try:
            self._write_out()
        except OSError:
            self.close()
            return
        if self._ending:
            self._close_if_ended()

    def _write_out(self) -> None:
        if not self._write_some():
            self._is_full = True
            self._network.watch_writing(self._socket, self.writable)

    def _queue(self, segment: bytes | memoryview | Region) -> None:
        if isinstance(segment, (bytes, memoryview)):
            self._unsent += len(segment)
        elif segment.size <= SMALL_FILE_REGION:
            size = segment.size
            segment = segment.file.read_at(segment.position, size)
            if len(segment) != size:
                raise ConnectionAbortedError  # as in _write_region
            self._unsent += size
        self._outgoing.append(segment)

    def writable(self) -> None:
        self.is_active = True
        try:
            if self._write_some():
                self._is_full = False
                self._network.unwatch_writing(self._socket)
                if self._ending:
                    self._close_if_ended()
                elif not self._reading and self._reading_allowed():
                    self._resume()
        except OSError:
            self.close()

    def _write_some(self) -> bool:
        """Send until all is sent or the socket is full; tell which."""
        outgoing = self._outgoing
        try:
            while outgoing:
                segment = outgoing[0]
                if isinstance(segment, (bytes, memoryview)):
                    self._write_bytes(segment if len(outgoing) == 1 else self._join())
                else:
                    self._write_region(segment)
        except BlockingIOError:
            return False
        return True

    def _join(self) -> bytes | memoryview:
        """The bytes that come first, as many as one send is to have, as one."""
        outgoing = self._outgoing
        parts: list[bytes | memoryview] = []
        room = JOINED_BYTES
        while outgoing:
            segment = outgoing[0]
            if not isinstance(segment, (bytes, memoryview)) or (parts and len(segment) > room):
                break
            parts.append(segment)
            room -= len(segment)
            outgoing.popleft()
        joined = parts[0] if len(parts) == 1 else b"".join(parts)
        outgoing.appendleft(joined)
        return joined

    def _write_bytes(self, segment: bytes | memoryview) -> None:
        outgoing = self._outgoing
        sent = self._socket.send(segment, MSG_MORE if len(outgoing) > 1 else 0)
        self._unsent -= sent
        if sent == len(segment):
            outgoing.popleft()
        else:
            outgoing[0] = memoryview(segment)[sent:]

    def _write_region(self, region: Region) -> None:
        sent = self._socket.send_file(region.file, region.position, region.size)
        if sent == 0:
            # The file ends before the region: it was cut under us. The peer must not take what
            # follows for records.
            raise ConnectionAbortedError
        if sent == region.size:
            self._outgoing.popleft()
        else:
            self._outgoing[0] = _Rest(region.file, region.position + sent, region.size - sent)

    # Back-pressure

    def _reading_allowed(self) -> bool:
        return (
            not self._starved
            and self._mute_timer is None
            and not self._ending
            and len(self._slots) < self._in_flight_limit
            and self._unsent < UNSENT_LIMIT
        )

    def answer_first(self, answer: Promise[Answer]) -> None:
        """Read nothing until this is answered: it is long, and what comes next may build on it."""
        self._in_flight_limit = 0
        answer.when_done(self._go_on_after)

    def _go_on_after(self, _answer: Promise[Answer]) -> None:
        self._in_flight_limit = IN_FLIGHT_LIMIT
        if not self._reading and self._reading_allowed():
            self._resume()

    def mute(self, seconds: float) -> None:
        """Read nothing for so long; of several times, the one that ends last holds.

        What was answered is sent, and the connection ends as any other.
        """
        self._muted_until = max(self._muted_until, self._now() + seconds)
        if self._mute_timer is None and not self.closed:
            self._mute_timer = self._call_later(seconds, self._unmute)
            self._pause()

    def _unmute(self) -> None:
        left = self._muted_until - self._now()
        if left > 0:
            self._mute_timer = self._call_later(left, self._unmute)
            return
        self._mute_timer = None
        if self._reading_allowed():
            self._resume()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._network.unwatch_reading(self._socket)

    def _resume(self) -> None:
        if self._rest is not None:
            self._later(self._go_on)
        elif not self._reading and not self.closed:
            self._reading = True
            self._network.watch_reading(self._socket, self.readable)

    # Login

    def logged_in(self, principal: Principal, answer_frame: AnswerFrame, frame_limit: int) -> None:
        """From now on the frames are ``principal``'s, and another answers them."""
        self.principal = principal
        self.granted = {}
        self._answer_frame = answer_frame
        self._frame_limit = frame_limit
        self._memory = self._memory_after_login
        self.login_by = math.inf

    def end(self) -> None:
        """Read nothing more, and close when the answer that was promised last has been sent."""
        self._ending = True
        self._pause()

    def _close_if_ended(self) -> None:
        if self._ending and not self._slots and not self._outgoing:
            self.close()

    def _violated(self, violation: ProtocolViolation) -> None:
        log.info("connection closed: not the protocol", peer=self.peer_host, reason=str(violation))
        self._end_with_turn()

    def _end_with_turn(self) -> None:
        """Read no more; what came before is answered, if it is in this turn."""
        if not self.closed:
            self.end()
            self._turn.send_at_end(self._close_when_sent)

    def _close_when_sent(self) -> None:
        try:
            if not self.closed and not self._is_full:
                self._write_some()
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._pause()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self._is_full:
            self._network.unwatch_writing(self._socket)
        self._outgoing.clear()
        self._slots.clear()
        if self._partial is not None:
            self._memory.give_back(self._partial_size - 4)
            self._partial = None
        self._socket.close()
        self._closed_callback(self)


class _Rest:
    """What is left of a region after a part of it was sent."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: ReadableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
