"""Producer ids: each given once, the next block fetched before it is missed, waiters bounded."""

import pytest
from tests.turns import TURN, virtual_time

from ottla.common.errors import CoordinatorLoadInProgress, ErrorCode, NotController
from ottla.common.promise import Promise
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.server.producer_ids import RETRY_SECONDS, WAITING_MAX, ProducerIdBlocks

BLOCK = 1000


class ControllerWithBlocks:
    """Hands out blocks one after the other, when it is told to."""

    def __init__(self) -> None:
        self.requests: list[AllocateProducerIdsRequest] = []
        self._promises: list[Promise[AllocateProducerIdsResponse]] = []
        self._next = 5000

    def submit(self, request: AllocateProducerIdsRequest) -> Promise[AllocateProducerIdsResponse]:
        self.requests.append(request)
        self._promises.append(Promise(TURN))
        return self._promises[-1]

    @property
    def is_asked(self) -> bool:
        return bool(self._promises)

    def hand_out(self, size: int = BLOCK) -> None:
        start, self._next = self._next, self._next + size
        self._promises.pop(0).fulfil(
            AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=size)
        )

    def refuse(self) -> None:
        self._promises.pop(0).fulfil(
            AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        )

    def be_gone(self) -> None:
        self._promises.pop(0).fail(NotController())


class Metadata:
    def __init__(self) -> None:
        broker = BrokerImage(
            node_id=3,
            epoch=77,
            incarnation_id=bytes(16),
            listeners={},
            features={},
            rack=None,
            fenced=False,
            in_controlled_shutdown=False,
            log_dirs=(),
        )
        self.image = MetadataImage(brokers={3: broker})


class Ids:
    def __init__(self) -> None:
        self.controller = ControllerWithBlocks()
        self.scheduler = virtual_time(1)
        self.blocks = ProducerIdBlocks(self.controller, Metadata(), self.scheduler, node_id=3)

    def take(self, count: int) -> list[int]:
        return [self.blocks.next().result() for _ in range(count)]


def test_the_first_id_waits_for_the_first_block() -> None:
    ids = Ids()
    first, second = ids.blocks.next(), ids.blocks.next()
    assert not first.done
    ids.controller.hand_out()
    assert (first.result(), second.result()) == (5000, 5001)
    assert len(ids.controller.requests) == 1


def test_the_controller_is_told_who_asks() -> None:
    ids = Ids()
    ids.blocks.next()
    assert (ids.controller.requests[0].broker_id, ids.controller.requests[0].broker_epoch) == (
        3,
        77,
    )


def test_the_next_block_is_asked_for_when_nine_tenths_are_used() -> None:
    ids = Ids()
    ids.blocks.next()
    ids.controller.hand_out()
    ids.take(898)
    assert len(ids.controller.requests) == 1
    ids.take(1)
    assert len(ids.controller.requests) == 2
    ids.take(50)
    assert len(ids.controller.requests) == 2


def test_no_id_is_given_twice_across_blocks() -> None:
    ids = Ids()
    given = []
    for _ in range(3500):
        promise = ids.blocks.next()
        if ids.controller.is_asked:
            ids.controller.hand_out()
        given.append(promise.result())
    assert given == list(range(5000, 8500))


def test_many_who_wait_get_as_many_blocks_as_they_need() -> None:
    ids = Ids()
    promises = [ids.blocks.next() for _ in range(25)]
    for _ in range(3):
        ids.controller.hand_out(10)
    assert [promise.result() for promise in promises] == list(range(5000, 5025))


@pytest.mark.parametrize("how", ["refuse", "be_gone"])
def test_without_the_controller_clients_are_told_to_try_again_and_it_is_asked_again_later(
    how: str,
) -> None:
    ids = Ids()
    waits = ids.blocks.next()
    ids.controller.refuse() if how == "refuse" else ids.controller.be_gone()
    with pytest.raises(CoordinatorLoadInProgress):
        waits.result()
    with pytest.raises(CoordinatorLoadInProgress):
        ids.blocks.next().result()
    assert len(ids.controller.requests) == 1
    ids.scheduler.run_for(2 * RETRY_SECONDS)
    again = ids.blocks.next()
    ids.controller.hand_out()
    assert again.result() == 5000


def test_ids_that_are_left_are_given_while_the_controller_is_gone() -> None:
    ids = Ids()
    ids.blocks.next()
    ids.controller.hand_out()
    ids.take(950)
    ids.controller.be_gone()
    assert ids.take(1) == [5951]


def test_those_who_wait_are_bounded() -> None:
    ids = Ids()
    promises = [ids.blocks.next() for _ in range(WAITING_MAX + 1)]
    with pytest.raises(CoordinatorLoadInProgress):
        promises[-1].result()
    assert not promises[0].done
