"""Delegation tokens: credentials that a user makes for others, for a while (KIP-48)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import refusal
from ottla.common.authorization import Principal
from ottla.common.errors import ApiError
from ottla.protocol.generated.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.generated.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


class Token(NamedTuple):
    token_id: str
    hmac: bytes
    """The secret that a client logs in with."""
    owner: Principal
    requester: Principal
    issued_ms: int
    expires_ms: int
    longest_ms: int
    """Until when it can be renewed at most."""
    renewers: tuple[Principal, ...]

    def __repr__(self) -> str:
        return f"Token({self.token_id}, {self.owner}, [hidden])"


def _failed(answer: object) -> ApiError | None:
    code = getattr(answer, "error_code", 0)
    return refusal(code) if code else None


def create_token(
    cluster: Cluster,
    *,
    owner: Principal | None = None,
    renewers: Sequence[Principal] = (),
    lifetime_ms: int = -1,
) -> Token:
    """For ourselves, or for another owner where that is allowed; -1: as long as may be."""
    response = cluster.ask_again(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[
                CreatableRenewers(principal_type=each.type, principal_name=each.name)
                for each in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        ),
        CreateDelegationTokenResponse,
        failed=_failed,
    )
    return Token(
        response.token_id,
        response.hmac,
        Principal(response.principal_type, response.principal_name),
        Principal(response.token_requester_principal_type, response.token_requester_principal_name),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        tuple(renewers),
    )


def list_tokens(cluster: Cluster, owners: Iterable[Principal] | None = None) -> list[Token]:
    """Those that we may see, of all owners or of some."""
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
            for each in owners
        ]
    response = cluster.ask_again(
        DescribeDelegationTokenRequest(owners=asked),
        DescribeDelegationTokenResponse,
        failed=_failed,
    )
    return sorted((_token(each) for each in response.tokens), key=lambda each: each.token_id)


def _token(told: DescribedDelegationToken) -> Token:
    return Token(
        told.token_id,
        told.hmac,
        Principal(told.principal_type, told.principal_name),
        Principal(told.token_requester_principal_type, told.token_requester_principal_name),
        told.issue_timestamp,
        told.expiry_timestamp,
        told.max_timestamp,
        tuple(Principal(each.principal_type, each.principal_name) for each in told.renewers),
    )


def renew_token(cluster: Cluster, hmac: bytes, period_ms: int = -1) -> int:
    """Let it live longer; when it expires now. -1: as long as the cluster has it."""
    response = cluster.ask_again(
        RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms),
        RenewDelegationTokenResponse,
        failed=_failed,
    )
    return response.expiry_timestamp_ms


def expire_token(cluster: Cluster, hmac: bytes, period_ms: int = -1) -> int:
    """Let it end after a while, or at once by -1; when it expires now."""
    response = cluster.ask_again(
        ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms),
        ExpireDelegationTokenResponse,
        failed=_failed,
    )
    return response.expiry_timestamp_ms
