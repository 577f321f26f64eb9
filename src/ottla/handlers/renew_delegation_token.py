"""RenewDelegationToken (key 39): a token holds for longer, up to its last day (KIP-48).

Its owner may ask for it and its renewers, nobody else. v1 is the first that is served; v2 is
flexible.
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.requests.context import ControllerServices, NodeServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.token_clients import may_ask_for_tokens


async def handle(
    request: RenewDelegationTokenRequest, context: RequestContext, services: ControllerServices
) -> RenewDelegationTokenResponse:
    refused = at_broker(request, context, services)
    return refused or await services.controller.submit(request, context)


def at_broker(
    _request: RenewDelegationTokenRequest, context: RequestContext, services: NodeServices
) -> RenewDelegationTokenResponse | None:
    if may_ask_for_tokens(context, services):
        return None
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


HANDLER: Final = Handler(
    RenewDelegationTokenRequest,
    handle,
    refuse=by_code(RenewDelegationTokenResponse),
    needs=[],
    at_broker=at_broker,
)
