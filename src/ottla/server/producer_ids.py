"""Producer ids, out of blocks that the controller hands to each broker (KIP-730).

The next block is asked for when nine tenths of the current one are used, so that a producer hardly
ever waits for it. Waiting requests are answered in order; when the controller does not answer, with
an error that makes the client try again.

Rules:
1. An id is given once: blocks do not overlap, and what is left of one when a broker stops is lost.
2. At most one request to the controller is under way.
3. Waiting requests are bounded.
"""

from collections import deque
from typing import Final, Protocol

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, CoordinatorLoadInProgress, ErrorCode
from ottla.common.promise import Promise, fulfilled
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.requests.context import MetadataSource

PREFETCH_FROM: Final = 0.9
WAITING_MAX: Final = 10_000
RETRY_SECONDS: Final = 0.05
NO_EPOCH: Final = -1


class ProducerIdAllocator(Protocol):
    """The controller, as far as producer ids are concerned."""

    def submit(
        self, request: AllocateProducerIdsRequest
    ) -> Promise[AllocateProducerIdsResponse]: ...


class BlockOfProducerIds:
    """Consecutive ids, of which some are given already."""

    __slots__ = ("_end", "_next", "_prefetch_at")

    def __init__(self, start: int, size: int) -> None:
        self._next = start
        self._end = start + size
        self._prefetch_at = start + int(size * PREFETCH_FROM)

    @property
    def is_empty(self) -> bool:
        return self._next >= self._end

    @property
    def runs_low(self) -> bool:
        return self._next >= self._prefetch_at

    def take(self) -> int:
        assert not self.is_empty
        self._next += 1
        return self._next - 1


class ProducerIdBlocks:
    """This broker's producer ids; see the module."""

    def __init__(
        self,
        allocator: ProducerIdAllocator,
        metadata: MetadataSource,
        scheduler: Scheduler,
        *,
        node_id: int,
    ) -> None:
        self._allocator = allocator
        self._metadata = metadata
        self._scheduler = scheduler
        self._node_id = node_id
        self._block = BlockOfProducerIds(0, 0)
        self._following: BlockOfProducerIds | None = None
        self._asking = False
        self._not_before = 0.0
        self._waiting: deque[Promise[int]] = deque()

    def next(self) -> Promise[int]:
        """Return an id that nobody else has."""
        self._advance()
        if not self._block.is_empty:
            producer_id = self._block.take()
            self._prefetch()
            return fulfilled(self._scheduler.turn, producer_id)
        waits: Promise[int] = Promise(self._scheduler.turn)
        if len(self._waiting) >= WAITING_MAX or self._scheduler.monotonic() < self._not_before:
            waits.fail(CoordinatorLoadInProgress())
            return waits
        self._waiting.append(waits)
        self._prefetch()
        return waits

    def _advance(self) -> None:
        if self._block.is_empty and self._following is not None:
            self._block, self._following = self._following, None

    def _prefetch(self) -> None:
        if self._asking or self._following is not None or not self._block.runs_low:
            return
        if self._scheduler.monotonic() < self._not_before:
            return
        self._asking = True
        broker = self._metadata.image.brokers.get(self._node_id)
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=NO_EPOCH if broker is None else broker.epoch
        )
        self._allocator.submit(request).when_done(self._allocated)

    def _allocated(self, answered: Promise[AllocateProducerIdsResponse]) -> None:
        self._asking = False
        try:
            response = answered.result()
            refused = response.error_code != ErrorCode.NONE or response.producer_id_len <= 0
        except ApiError:
            response, refused = AllocateProducerIdsResponse(), True
        if refused:
            self._not_before = self._scheduler.monotonic() + RETRY_SECONDS
            waiting, self._waiting = self._waiting, deque()
            for waits in waiting:
                waits.fail(CoordinatorLoadInProgress())
            return
        self._following = BlockOfProducerIds(response.producer_id_start, response.producer_id_len)
        self._serve()

    def _serve(self) -> None:
        """Give ids to waiting requests, and ask for more if that was not enough."""
        self._advance()
        while self._waiting and not self._block.is_empty:
            self._waiting.popleft().fulfil(self._block.take())
            self._advance()
        self._prefetch()
