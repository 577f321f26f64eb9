"""DescribeTransactions (key 65): what the coordinator knows of transactional ids (KIP-664).

v0 is the only version.
"""

from typing import Final

from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers.context import RequestContext, Services
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

KEY: Final = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS: Final = (0, 0)


async def handle(
    request: DescribeTransactionsRequest, _context: RequestContext, services: Services
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(each, services) for each in request.transactional_ids]
    )


def _describe(transactional_id: str, services: Services) -> TransactionState:
    try:
        found = services.transactions.describe(transactional_id)
    except ApiError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, TopicData] = {}
    for topic, partition in found.partitions:
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=list(topics.values()),
    )


def refuse(
    request: DescribeTransactionsRequest, code: ErrorCode, _message: str
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=each, error_code=code)
            for each in request.transactional_ids
        ]
    )
