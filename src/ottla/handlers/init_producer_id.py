"""InitProducerId (key 22): a producer id, by which a producer's retries are told from new records.

Without a transactional id every request gets a fresh id with epoch 0: an idempotent producer that
lost its state begins anew. With one the transaction coordinator decides: the same id with a higher
epoch, which fences its former holder.

v1 as v0; v2 flexible; v3 producer id and epoch, to go on after an error (KIP-360); v4
PRODUCER_FENCED, which older clients know as INVALID_PRODUCER_EPOCH; v5 transactions of version 2
(KIP-890). v6 is not stable in Kafka 4.3, and not served: it is for two-phase commit (KIP-939).
"""

from collections.abc import Collection
from typing import Final

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.metadata import ProducerIdAndEpoch
from ottla.coordinator.transaction.service import error_of
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole

_NO_PRODUCER_ID: Final = -1
_NO_EPOCH: Final = -1
FENCED_SINCE: Final = 4


async def handle(
    request: InitProducerIdRequest, context: RequestContext, services: Services
) -> InitProducerIdResponse:
    if (request.producer_id == _NO_PRODUCER_ID) != (request.producer_epoch == _NO_EPOCH):
        raise InvalidRequest
    if request.transactional_id is None:
        producer_id = await services.producer_ids.next()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    expected = None
    if request.producer_id != _NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        producer = await services.transactions.init_producer_id(
            InitProducerId(request.transactional_id, request.transaction_timeout_ms, expected)
        )
    except ApiError as error:
        return _refused(error_of(error.code, FENCED_SINCE, context.version))
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def refuse(
    _request: InitProducerIdRequest, error: ApiError, _version: int
) -> InitProducerIdResponse:
    return _refused(error.code)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=_NO_PRODUCER_ID, producer_epoch=_NO_EPOCH
    )


def _transactional_id(request: InitProducerIdRequest) -> Collection[str]:
    return () if request.transactional_id is None else (request.transactional_id,)


def _cluster_if_idempotent(request: InitProducerIdRequest) -> Collection[str]:
    return (CLUSTER_NAME,) if request.transactional_id is None else ()


HANDLER: Final = Handler(
    InitProducerIdRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, _transactional_id),
        Whole(
            AclOperation.IDEMPOTENT_WRITE,
            ResourceType.CLUSTER,
            _cluster_if_idempotent,
            otherwise=((AclOperation.WRITE, ResourceType.TOPIC),),
        ),
    ],
)
