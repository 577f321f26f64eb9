"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken (KIP-48, KIP-373, KIP-900).

A token holds until it expires; its owner or a renewer puts that off, up to its last day. Of the
expired ones the records are removed by and by; they let nobody in before that already.
"""

from collections.abc import Iterator
from typing import Final

from ottla.common.authorization import Client, Principal
from ottla.common.errors import (
    ApiError,
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    PolicyViolation,
    UnsupportedVersion,
)
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.controller.token_index import TokenIndex
from ottla.metadata import versions
from ottla.metadata.delegation_tokens import DelegationToken, delegation_token_to_record
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.generated.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.protocol.generated.metadata_records import RemoveDelegationTokenRecord
from ottla.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.security.mechanism import USER

RENEWERS_CHARACTERS_MAX: Final = 256 * 1024
"""Of all names together: they stand in one record of the metadata log."""
_LATEST_MS: Final = (1 << 63) - 1


class DelegationTokensManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def create_token(
        self, request: CreateDelegationTokenRequest, client: Client, now_ms: int
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        requester = client.principal
        owner = token_owner(request, requester)
        response = CreateDelegationTokenResponse(
            principal_type=owner.type,
            principal_name=owner.name,
            token_requester_principal_type=requester.type,
            token_requester_principal_name=requester.name,
        )
        try:
            index = self._index()
            _check_renewers(request)
        except ApiError as refusal:
            response.error_code = refusal.code
            return ControllerResult(response)
        renewers = tuple(f"{USER}:{each.principal_name}" for each in request.renewers)
        last_ms = _later(now_ms, self._lifetime_ms(request.max_lifetime_ms))
        expires_ms = min(
            last_ms, _later(now_ms, self._state.config.delegation_token_expiry_time_ms)
        )
        token = DelegationToken(str(owner), str(requester), renewers, now_ms, last_ms, expires_ms)
        token_id = uuid_text(random_uuid(self._state.chance))
        response.issue_timestamp_ms = now_ms
        response.expiry_timestamp_ms = expires_ms
        response.max_timestamp_ms = last_ms
        response.token_id = token_id
        response.hmac = index.key.hmac_of(token_id)
        return ControllerResult(response, [delegation_token_to_record(token_id, token)])

    def _lifetime_ms(self, wanted_ms: int) -> int:
        longest_ms = self._state.config.delegation_token_max_lifetime_ms
        return min(longest_ms, wanted_ms) if wanted_ms > 0 else longest_ms

    def renew_token(
        self, request: RenewDelegationTokenRequest, client: Client, now_ms: int
    ) -> ControllerResult[RenewDelegationTokenResponse]:
        token_id, token = self._find(request.hmac)
        _check_holds(token, now_ms)
        _check_may_renew(token, client)
        period_ms = self._state.config.delegation_token_expiry_time_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        expires_ms = min(token.max_timestamp, _later(now_ms, period_ms))
        return ControllerResult(
            RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms),
            [_until(token_id, token, expires_ms)],
        )

    def expire_token(
        self, request: ExpireDelegationTokenRequest, client: Client, now_ms: int
    ) -> ControllerResult[ExpireDelegationTokenResponse]:
        token_id, token = self._find(request.hmac)
        _check_may_renew(token, client)
        expires_ms = now_ms
        record: MetadataRecord = RemoveDelegationTokenRecord(token_id=token_id)
        if request.expiry_time_period_ms >= 0:
            _check_holds(token, now_ms)
            expires_ms = min(token.max_timestamp, _later(now_ms, request.expiry_time_period_ms))
            record = _until(token_id, token, expires_ms)
        return ControllerResult(
            ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms), [record]
        )

    def expired(self, now_ms: int) -> Iterator[MetadataRecord]:
        """The removals of tokens that hold no longer."""
        for token_id, token in self._state.image.delegation_tokens.items():
            if is_expired(token, now_ms):
                yield RemoveDelegationTokenRecord(token_id=token_id)

    def _index(self) -> TokenIndex:
        index = self._state.tokens
        if index is None:
            raise DelegationTokenAuthDisabled
        if not versions.delegation_tokens_supported(self._state.metadata_version):
            raise UnsupportedVersion
        return index

    def _find(self, hmac: bytes) -> tuple[str, DelegationToken]:
        token_id = self._index().find(hmac)
        if token_id is None:
            raise DelegationTokenNotFound
        return token_id, self._state.image.delegation_tokens[token_id]


def token_owner(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Whose the token is to be: the one that is named, or else who asks for it."""
    if not request.owner_principal_name:
        return Principal(requester.type, requester.name)
    return Principal(request.owner_principal_type or USER, request.owner_principal_name)


def is_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_renewers(request: CreateDelegationTokenRequest) -> None:
    if any(each.principal_type != USER for each in request.renewers):
        raise InvalidPrincipalType
    characters = sum(len(USER) + 1 + len(each.principal_name) for each in request.renewers)
    if characters > RENEWERS_CHARACTERS_MAX:
        raise PolicyViolation


def _check_holds(token: DelegationToken, now_ms: int) -> None:
    if is_expired(token, now_ms):
        raise DelegationTokenExpired


def _check_may_renew(token: DelegationToken, client: Client) -> None:
    if str(client.principal) not in (token.owner, *token.renewers):
        raise DelegationTokenOwnerMismatch


def _until(token_id: str, token: DelegationToken, expires_ms: int) -> MetadataRecord:
    return delegation_token_to_record(token_id, token._replace(expiration_timestamp=expires_ms))


def _later(now_ms: int, period_ms: int) -> int:
    return min(_LATEST_MS, now_ms + period_ms)
