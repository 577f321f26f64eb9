"""AllocateProducerIds: blocks of producer ids, each given out once."""

from typing import Final

from ottla.common.errors import ApiError
from ottla.controller.partitions import PartitionsManager
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.generated.metadata_records import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
_LONG_MAX: Final = (1 << 63) - 1


class ProducerIdsManager:
    def __init__(self, state: ControllerState, partitions: PartitionsManager) -> None:
        self._state = state
        self._partitions = partitions

    def allocate(
        self, request: AllocateProducerIdsRequest
    ) -> ControllerResult[AllocateProducerIdsResponse]:
        self._partitions.check_broker_epoch(request.broker_id, request.broker_epoch)
        first = self._state.image.next_producer_id
        if first > _LONG_MAX - BLOCK_SIZE:
            raise ApiError(
                "Exhausted all producerIds as the next block's end producerId has exceeded "
                "the int64 type limit"
            )
        record = ProducerIdsRecord(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            next_producer_id=first + BLOCK_SIZE,
        )
        response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
        return ControllerResult(response, [record])
