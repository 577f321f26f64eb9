"""CreateDelegationToken (key 38): a secret that logs in as its owner, for a while (KIP-48).

The broker refuses by itself, and the controller once more: what a broker sends on in an envelope is
not the controller's to trust. v1 is the first that is served; v2 is flexible; v3 tokens for others
(KIP-373).
"""

from typing import Final

from ottla.common.authorization import ANONYMOUS, AclOperation, Principal, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.controller.delegation_tokens import token_owner
from ottla.protocol.generated.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.requests.context import ControllerServices, NodeServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.token_clients import may_ask_for_tokens
from ottla.security.mechanism import USER

_REQUESTER_FROM: Final = 3


async def handle(
    request: CreateDelegationTokenRequest, context: RequestContext, services: ControllerServices
) -> CreateDelegationTokenResponse:
    refused = _refused(request, context, services)
    if refused is not None:
        return refused
    response = await services.controller.submit(request, context)
    return _in_version(response, context.version)


def at_broker(
    request: CreateDelegationTokenRequest, context: RequestContext, services: NodeServices
) -> CreateDelegationTokenResponse | None:
    refused = _refused(request, context, services)
    if refused is None and any(each.principal_type != USER for each in request.renewers):
        owner = token_owner(request, context.principal)
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return _without_token(code, owner, context.principal, context.version)
    return refused


def _refused(
    request: CreateDelegationTokenRequest, context: RequestContext, services: NodeServices
) -> CreateDelegationTokenResponse | None:
    requester = context.principal
    owner = token_owner(request, requester)
    if not may_ask_for_tokens(context, services):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif str(owner) != str(requester) and not services.authorizer.allows(
        context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    else:
        return None
    return _without_token(code, owner, requester, context.version)


def _without_token(
    code: ErrorCode, owner: Principal, requester: Principal, version: int
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    return _in_version(response, version)


def _in_version(
    response: CreateDelegationTokenResponse, version: int
) -> CreateDelegationTokenResponse:
    if version < _REQUESTER_FROM:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def refuse(
    _request: CreateDelegationTokenRequest, error: ApiError, version: int
) -> CreateDelegationTokenResponse:
    return _without_token(error.code, ANONYMOUS, ANONYMOUS, version)


HANDLER: Final = Handler(
    CreateDelegationTokenRequest,
    handle,
    refuse=refuse,
    needs=[ByHandler(AclOperation.CREATE_TOKENS, ResourceType.USER, Effect.WHOLE, since=3)],
    at_broker=at_broker,
)
