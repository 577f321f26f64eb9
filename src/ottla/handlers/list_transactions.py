"""ListTransactions (key 66): the transactions that this broker coordinates (KIP-664).

v1 shows only those that run for longer than a time (KIP-994); v2 those whose id matches a regular
expression (KIP-1152).
"""

from collections.abc import Callable
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.coordinator.group.regex.matcher import Matcher
from ottla.coordinator.transaction.listing import Filters
from ottla.coordinator.transaction.state import TransactionState, state_of
from ottla.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.generated.list_transactions import TransactionState as ListedTransaction
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Hidden


def handle(
    request: ListTransactionsRequest, _context: RequestContext, services: Services
) -> ListTransactionsResponse:
    states: set[TransactionState] = set()
    unknown = []
    for name in request.state_filters:
        state = state_of(name)
        if state is None:
            unknown.append(name)
        else:
            states.add(state)
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    if unknown and not states:
        return response  # nothing is in a state that there is not
    filters = Filters(
        states=frozenset(states),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        matches=_matcher(request.transactional_id_pattern),
    )
    response.transaction_states = [
        ListedTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state.label,
        )
        for each in services.transactions.list_transactions(filters)
    ]
    return response


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    if not pattern:
        return None
    return Matcher(pattern).matches


HANDLER: Final = Handler(
    ListTransactionsRequest,
    handle,
    refuse=by_code(ListTransactionsResponse),
    needs=[
        Hidden(
            AclOperation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            lambda response: [response.transaction_states],
            lambda item: item.transactional_id,
        )
    ],
)
