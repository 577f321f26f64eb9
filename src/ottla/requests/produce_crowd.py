"""Produce requests that come together are appended together: one write for each partition.

What the writes of a crowd cost is the number of calls. So a small request that has come with others
waits, as a copy, for the end of the turn, and is answered there with all of them, in the order in
which they came. Until then nothing has happened to any log, and afterwards all of it has: nobody
finds a log that is ahead of its file, whatever reads, cuts, rolls, moves or deletes it meanwhile.

Rules:
1. A request that has come alone, or is large, is answered at once and not copied.
2. What comes behind a waiting request on the same connection finds it answered.
3. A crowd is bounded in requests and bytes; what is over that begins another one.
4. Where nothing was joined, since each request went to a partition of its own, a number of
   requests is answered at once before that is tried again.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.common.buffers import Answer
from ottla.common.promise import Promise
from ottla.common.turn import Turn
from ottla.requests.context import Peer, Services

FRAME_BYTES_MAX: Final = 16 * 1024
"""Of a request that waits: to copy more costs more than a write."""
REQUESTS_MAX: Final = 64
CROWD_BYTES_MAX: Final = 256 * 1024
TRIED_AGAIN_AFTER: Final = 64
"""Requests that are answered at once after a crowd in which nothing was joined."""


class CrowdedProduce:
    """A request that waits for the end of the turn, with a frame of its own."""

    __slots__ = ("answer", "correlation_id", "frame", "peer", "pos", "version")

    def __init__(
        self,
        frame: memoryview,
        pos: int,
        version: int,
        correlation_id: int,
        peer: Peer | None,
        answer: Promise[Answer],
    ) -> None:
        self.frame = frame
        self.pos = pos
        self.version = version
        self.correlation_id = correlation_id
        self.peer = peer
        self.answer = answer


AnswerTogether: TypeAlias = Callable[[list[CrowdedProduce], Services], int]
"""Settles the promises of all; how many batches needed no write of their own."""


class ProduceCrowd:
    __slots__ = (
        "_answer_together",
        "_at_once",
        "_is_awaited",
        "_peers",
        "_requests",
        "_services",
        "_size",
        "_turn",
    )

    def __init__(self, services: Services, answer_together: AnswerTogether) -> None:
        self._services = services
        self._answer_together = answer_together
        self._turn: Turn = services.scheduler.turn
        self._requests: list[CrowdedProduce] = []
        self._peers: set[Peer | None] = set()
        self._size = 0
        self._is_awaited = False
        """Whether the end of the turn will answer what waits."""
        self._at_once = 0
        """How many requests are yet to be answered at once."""

    def take(
        self, frame: memoryview, pos: int, version: int, correlation_id: int, peer: Peer | None
    ) -> Promise[Answer] | None:
        """Promise the answer for the end of the turn; None for a request that is not to wait."""
        size = len(frame)
        if not self._turn.is_crowd or size > FRAME_BYTES_MAX or self._at_once:
            if self._requests:
                self.answer()
            elif self._at_once:
                self._at_once -= 1
            return None
        answer: Promise[Answer] = Promise(self._turn)
        own = memoryview(bytearray(frame))  # the connection reads on in its own
        self._requests.append(CrowdedProduce(own, pos, version, correlation_id, peer, answer))
        self._peers.add(peer)
        self._size += size
        if len(self._requests) >= REQUESTS_MAX or self._size >= CROWD_BYTES_MAX:
            self.answer()
        elif not self._is_awaited:
            self._is_awaited = True
            self._turn.write_at_end(self._end)
        return answer

    def answer_before(self, peer: Peer) -> None:
        """Something else of ``peer`` is about to be handled."""
        if peer in self._peers:
            self.answer()

    def _end(self) -> None:
        self._is_awaited = False
        if self._requests:
            self.answer()

    def answer(self) -> None:
        """Append and answer all that wait."""
        requests, self._requests = self._requests, []
        self._peers = set()
        self._size = 0
        saved = self._answer_together(requests, self._services)
        if saved == 0 and len(requests) > 1:
            self._at_once = TRIED_AGAIN_AFTER
