"""DescribeTransactions (key 65): what the coordinator knows of transactional ids (KIP-664).

v0 is the only version.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, Hidden, itself


def handle(
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
    request: DescribeTransactionsRequest, error: ApiError, _version: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=each, error_code=error.code)
            for each in request.transactional_ids
        ]
    )


HANDLER: Final = Handler(
    DescribeTransactionsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            lambda request: request.transactional_ids,
            itself,
            lambda response: response.transaction_states,
        ),
        Hidden(
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            lambda response: [state.topics for state in response.transaction_states],
            lambda item: item.topic,
        ),
    ],
)
