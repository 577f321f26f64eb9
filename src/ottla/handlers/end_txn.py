"""EndTxn (key 26): commit or abort a transaction.

v1 as v0; v2 PRODUCER_FENCED, which older clients know as INVALID_PRODUCER_EPOCH; v3 flexible; v4
TRANSACTION_ABORTABLE; v5 is version 2 of transactions (KIP-890): the answer has the producer id and
the epoch to go on with.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.service import error_of
from ottla.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, transactional_id

FENCED_SINCE: Final = 2
VERSION_2_SINCE: Final = 5


async def handle(
    request: EndTxnRequest, context: RequestContext, services: Services
) -> EndTxnResponse:
    is_version_2 = context.version >= VERSION_2_SINCE
    try:
        producer = await services.transactions.end(
            EndTransaction(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                commit=request.committed,
                client_version=2 if is_version_2 else 0,
            )
        )
    except ApiError as error:
        return EndTxnResponse(error_code=error_of(error.code, FENCED_SINCE, context.version))
    if not is_version_2:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def refuse(_request: EndTxnRequest, error: ApiError, _version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


HANDLER: Final = Handler(
    EndTxnRequest,
    handle,
    refuse=by_code(EndTxnResponse),
    needs=[Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)],
)
