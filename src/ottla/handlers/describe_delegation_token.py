"""DescribeDelegationToken (key 41): the tokens that a client may see, secrets and all (KIP-48).

Its own and those that it made or may renew; others' if an ACL says so, of the token or of its
owner. v1 is the first that is served; v2 is flexible; v3 who asked for a token (KIP-373).
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.protocol.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.token_clients import may_ask_for_tokens
from ottla.requests.turns import in_turns
from ottla.security.delegation_tokens import TokenKey, token_key

_AT_ONCE: Final = 500
"""Tokens that are looked at in one turn."""
_REQUESTER_FROM: Final = 3
_Item = tuple[str, DelegationToken]


async def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext, services: NodeServices
) -> DescribeDelegationTokenResponse:
    if not may_ask_for_tokens(context, services):
        raise DelegationTokenRequestNotAllowed
    key = token_key(services.config)
    if key is None:
        raise DelegationTokenAuthDisabled
    shown = _Shown(request, context, services, key)
    if request.owners is None or request.owners:
        tokens = list(services.metadata.image.delegation_tokens.items())
        slices = [tokens[at : at + _AT_ONCE] for at in range(0, len(tokens), _AT_ONCE)]
        await in_turns(services.scheduler, shown.add, slices, at_once=1)
    return DescribeDelegationTokenResponse(tokens=shown.tokens)


class _Shown:
    """What one client is shown."""

    def __init__(
        self,
        request: DescribeDelegationTokenRequest,
        context: RequestContext,
        services: NodeServices,
        key: TokenKey,
    ) -> None:
        self._context = context
        self._authorizer = services.authorizer
        self._key = key
        self._client = str(context.principal)
        self._owners = None
        if request.owners is not None:
            named = (f"{each.principal_type}:{each.principal_name}" for each in request.owners)
            self._owners = frozenset(named)
        self.tokens: list[DescribedDelegationToken] = []

    def add(self, tokens: Iterable[_Item]) -> None:
        for token_id, token in tokens:
            concerned = (token.owner, token.requester, *token.renewers)
            if self._owners is not None and self._owners.isdisjoint(concerned):
                continue
            if self._client in concerned or self._may_see(token_id, token):
                self.tokens.append(self._told(token_id, token))

    def _may_see(self, token_id: str, token: DelegationToken) -> bool:
        return any(
            self._authorizer.allows(self._context, *need, log_if_denied=False)
            for need in (
                (AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id),
                (AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
            )
        )

    def _told(self, token_id: str, token: DelegationToken) -> DescribedDelegationToken:
        owner_type, _, owner_name = token.owner.partition(":")
        told = DescribedDelegationToken(
            principal_type=owner_type,
            principal_name=owner_name,
            issue_timestamp=token.issue_timestamp,
            expiry_timestamp=token.expiration_timestamp,
            max_timestamp=token.max_timestamp,
            token_id=token_id,
            hmac=self._key.hmac_of(token_id),
        )
        if self._context.version >= _REQUESTER_FROM:
            kind, _, name = token.requester.partition(":")
            told.token_requester_principal_type = kind
            told.token_requester_principal_name = name
        for renewer in token.renewers:
            kind, _, name = renewer.partition(":")
            told.renewers.append(
                DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            )
        return told


HANDLER: Final = Handler(
    DescribeDelegationTokenRequest,
    handle,
    refuse=by_code(DescribeDelegationTokenResponse),
    needs=[
        ByHandler(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, Effect.HIDDEN),
        ByHandler(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, Effect.HIDDEN),
    ],
)
