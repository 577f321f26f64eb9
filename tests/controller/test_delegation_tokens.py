"""Delegation tokens at the controller; codes and times are those of Apache Kafka 4.3.1."""

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from tests.controller.machines import Controller

from ottla.common.authorization import Principal
from ottla.common.errors import (
    ApiError,
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    ErrorCode,
    UnsupportedVersion,
)
from ottla.controller.delegation_tokens import RENEWERS_CHARACTERS_MAX
from ottla.controller.result import ControllerResult
from ottla.controller.tasks import TOKENS_MAX
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.generated.metadata_records import RemoveDelegationTokenRecord
from ottla.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from ottla.security.delegation_tokens import TokenKey

SECRET = "the cluster's own"
NOW = 1_000_000
DAY_MS = 24 * 60 * 60 * 1000
LATEST_MS = (1 << 63) - 1


class Asking(NamedTuple):
    """A client of the controller."""

    principal: Principal
    client_id: str | None = None
    peer_host: str = "10.0.0.9"
    request_name: str = ""


ALICE, BOB, CAROL = (Asking(Principal("User", name)) for name in ("alice", "bob", "carol"))


def secured(**changes: str) -> Controller:
    given: dict[str, Any] = {"delegation_token_secret_key": SECRET, **changes}
    return Controller(**given)


def create(
    controller: Controller,
    client: Asking = ALICE,
    *renewers: str,
    lifetime_ms: int = -1,
    owner: str = "",
    now_ms: int = NOW,
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type="User", principal_name=n) for n in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    return controller.apply(controller.machine.tokens.create_token(request, client, now_ms))


def renew(
    controller: Controller, hmac: bytes, client: Asking = ALICE, period_ms: int = -1, now: int = NOW
) -> int:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    renewed = controller.apply(controller.machine.tokens.renew_token(request, client, now))
    assert renewed.error_code == ErrorCode.NONE
    return renewed.expiry_timestamp_ms


def expire(
    controller: Controller, hmac: bytes, client: Asking = ALICE, period_ms: int = -1, now: int = NOW
) -> int:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    expired = controller.apply(controller.machine.tokens.expire_token(request, client, now))
    assert expired.error_code == ErrorCode.NONE
    return expired.expiry_timestamp_ms


def test_a_token_is_its_makers_and_its_hmac_is_not_written() -> None:
    controller = secured()
    made = create(controller, ALICE, "bob")
    assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == (
        "User",
        "alice",
    )
    assert (made.issue_timestamp_ms, made.max_timestamp_ms) == (NOW, NOW + 7 * DAY_MS)
    assert made.expiry_timestamp_ms == NOW + DAY_MS
    assert made.hmac == TokenKey(SECRET).hmac_of(made.token_id)
    assert controller.image.delegation_tokens == {
        made.token_id: DelegationToken(
            "User:alice", "User:alice", ("User:bob",), NOW, NOW + 7 * DAY_MS, NOW + DAY_MS
        )
    }
    assert repr(made.hmac) not in repr(controller.records)


def test_a_token_can_be_made_for_another() -> None:
    controller = secured()
    made = create(controller, BOB, owner="alice")
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "bob")
    token = controller.image.delegation_tokens[made.token_id]
    assert (token.owner, token.requester) == ("User:alice", "User:bob")
    with pytest.raises(DelegationTokenOwnerMismatch):  # who asked for it is not its owner
        renew(controller, made.hmac, BOB)


@pytest.mark.parametrize(
    ("lifetime_ms", "last_ms", "expires_ms"),
    [
        (-1, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
        (1000, 1000, 1000),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (LATEST_MS, 7 * DAY_MS, DAY_MS),
    ],
)
def test_how_long_a_token_may_live(lifetime_ms: int, last_ms: int, expires_ms: int) -> None:
    made = create(secured(), lifetime_ms=lifetime_ms)
    assert made.max_timestamp_ms - NOW == last_ms
    assert made.expiry_timestamp_ms - NOW == expires_ms


def test_a_token_for_ever_ends_with_the_numbers() -> None:
    controller = secured(delegation_token_max_lifetime_ms=str(LATEST_MS))
    made = create(controller)
    assert made.max_timestamp_ms == LATEST_MS
    assert expire(controller, made.hmac, period_ms=LATEST_MS) == LATEST_MS


@pytest.mark.parametrize(
    ("period_ms", "later_ms"), [(-1, DAY_MS), (0, DAY_MS), (5, 5), (9 * DAY_MS, DAY_MS)]
)
def test_renewing_counts_from_now(period_ms: int, later_ms: int) -> None:
    controller = secured()
    made = create(controller)
    assert renew(controller, made.hmac, ALICE, period_ms, NOW + 77) == NOW + 77 + later_ms
    (token,) = controller.image.delegation_tokens.values()
    assert token.expiration_timestamp == NOW + 77 + later_ms
    assert token.max_timestamp == made.max_timestamp_ms


def test_renewing_ends_at_the_last_day() -> None:
    controller = secured()
    made = create(controller, lifetime_ms=1000)
    assert renew(controller, made.hmac, now=NOW + 500) == NOW + 1000


@pytest.mark.parametrize(
    ("period_ms", "expires_ms"), [(0, NOW), (5, NOW + 5), (30 * DAY_MS, NOW + 7 * DAY_MS)]
)
def test_an_end_is_set(period_ms: int, expires_ms: int) -> None:
    controller = secured()
    made = create(controller)
    assert expire(controller, made.hmac, ALICE, period_ms) == expires_ms
    (token,) = controller.image.delegation_tokens.values()
    assert token.expiration_timestamp == expires_ms


def test_a_token_is_taken_away_at_once() -> None:
    controller = secured()
    made, other = create(controller), create(controller)
    assert expire(controller, made.hmac) == NOW
    assert list(controller.image.delegation_tokens) == [other.token_id]
    with pytest.raises(DelegationTokenNotFound):
        renew(controller, made.hmac)


def test_owner_and_renewers_alone_may_renew_and_expire() -> None:
    controller = secured()
    made = create(controller, ALICE, "bob")
    for change in (renew, expire):
        with pytest.raises(DelegationTokenOwnerMismatch):
            change(controller, made.hmac, CAROL)
    assert renew(controller, made.hmac, BOB)
    assert expire(controller, made.hmac, BOB)


def test_what_has_expired_is_renewed_no_more_but_can_be_removed() -> None:
    controller = secured()
    made = create(controller)
    late = made.expiry_timestamp_ms + 1
    assert renew(controller, made.hmac, now=late - 1) == late - 1 + DAY_MS
    late += DAY_MS
    with pytest.raises(DelegationTokenExpired):
        renew(controller, made.hmac, CAROL, now=late)  # before who asks is looked at
    with pytest.raises(DelegationTokenExpired):
        expire(controller, made.hmac, period_ms=5, now=late)
    with pytest.raises(DelegationTokenOwnerMismatch):
        expire(controller, made.hmac, CAROL, period_ms=5, now=late)
    assert expire(controller, made.hmac, now=late) == late


@pytest.mark.parametrize("hmac", [b"", b"x", bytes(64), bytes(100_000)])
def test_an_hmac_of_no_token(hmac: bytes) -> None:
    controller = secured()
    create(controller)
    for change in (renew, expire):
        with pytest.raises(DelegationTokenNotFound):
            change(controller, hmac)


def refusals(controller: Controller, hmac: bytes = b"x") -> set[object]:
    """What the three requests are answered where there are no tokens."""
    found: set[object] = {ErrorCode(create(controller).error_code)}
    for change in (renew, expire):
        with pytest.raises(ApiError) as refused:
            change(controller, hmac)
        found.add(type(refused.value))
    return found


def test_without_a_key_there_are_no_tokens() -> None:
    controller = Controller()
    refused = create(controller, BOB, owner="alice")
    assert (refused.principal_name, refused.token_requester_principal_name) == ("alice", "bob")
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (0, "", b"")
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert refusals(controller) == {disabled, DelegationTokenAuthDisabled}


def test_an_old_cluster_has_no_tokens() -> None:
    controller = secured()
    controller.machine.state.image = MetadataImage()
    assert refusals(controller) == {ErrorCode.UNSUPPORTED_VERSION, UnsupportedVersion}


def test_renewers_are_users_and_not_too_many() -> None:
    controller = secured()
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="g")]
    )
    refused = controller.apply(controller.machine.tokens.create_token(request, ALICE, NOW))
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    most = RENEWERS_CHARACTERS_MAX // len("User:xxx")
    assert create(controller, ALICE, *["xxx"] * most).error_code == ErrorCode.NONE
    crowd = create(controller, ALICE, *["xxx"] * (most + 1))
    assert crowd.error_code == ErrorCode.POLICY_VIOLATION


def test_a_lost_write_is_lost_for_the_index_too() -> None:
    """A controller that resigns goes back to what is committed."""
    controller = secured()
    kept = create(controller)
    before = controller.machine.image
    lost = create(controller)
    controller.machine.reset(before)
    with pytest.raises(DelegationTokenNotFound):
        renew(controller, lost.hmac)
    assert renew(controller, kept.hmac)


def test_the_expired_ones_are_found_some_at_a_time() -> None:
    controller = secured()
    dead = {create(controller, lifetime_ms=10).token_id for _ in range(5)}
    create(controller)
    assert list(controller.machine.tokens.expired(NOW + 10)) == []
    records = list(controller.machine.tokens.expired(NOW + 11))
    assert {each.token_id for each in records if isinstance(each, RemoveDelegationTokenRecord)} == (
        dead
    )
    assert TOKENS_MAX == 1_000


class TokensMachine(RuleBasedStateMachine):
    """Any order of requests against a list of tokens by hand; the standby takes over at times."""

    tokens = Bundle("tokens")
    clients = st.sampled_from([ALICE, BOB, CAROL])

    def __init__(self) -> None:
        super().__init__()
        self.controller = secured(delegation_token_max_lifetime_ms="1000")
        self.now = NOW
        self.live: dict[bytes, DelegationToken] = {}
        self.gone: set[bytes] = set()

    @rule(
        target=tokens,
        client=clients,
        renewers=st.lists(st.sampled_from(["bob", "carol"]), max_size=2),
        lifetime=st.sampled_from([-1, 1, 50, 5000]),
        owner=st.sampled_from(["", "carol"]),
    )
    def create(self, client: Asking, renewers: list[str], lifetime: int, owner: str) -> bytes:
        made = create(
            self.controller,
            client,
            *renewers,
            lifetime_ms=lifetime,
            owner=owner,
            now_ms=self.now,
        )
        ends = self.now + (min(lifetime, 1000) if lifetime > 0 else 1000)
        names = tuple(f"User:{name}" for name in renewers)
        whose = f"User:{owner}" if owner else str(client.principal)
        assert made.hmac not in self.live
        self.live[made.hmac] = DelegationToken(
            whose, str(client.principal), names, self.now, ends, ends
        )
        return made.hmac

    def _expected(
        self, hmac: bytes, client: Asking, *, holds_first: bool, needs_to_hold: bool
    ) -> type[ApiError] | None:
        token = self.live.get(hmac)
        if token is None:
            return DelegationTokenNotFound
        expired = token.expiration_timestamp < self.now and needs_to_hold
        stranger = str(client.principal) not in (token.owner, *token.renewers)
        if expired and (holds_first or not stranger):
            return DelegationTokenExpired
        return DelegationTokenOwnerMismatch if stranger else None

    @rule(hmac=tokens, client=clients, period=st.sampled_from([-1, 0, 20, 5000]))
    def renew(self, hmac: bytes, client: Asking, period: int) -> None:
        refusal = self._expected(hmac, client, holds_first=True, needs_to_hold=True)
        if refusal is not None:
            with pytest.raises(refusal):
                renew(self.controller, hmac, client, period, self.now)
            return
        token = self.live[hmac]
        wanted = min(period, DAY_MS) if period > 0 else DAY_MS
        until = min(token.max_timestamp, self.now + wanted)
        assert renew(self.controller, hmac, client, period, self.now) == until
        self.live[hmac] = token._replace(expiration_timestamp=until)

    @rule(hmac=tokens, client=clients, period=st.sampled_from([-1, 0, 20, 5000]))
    def expire(self, hmac: bytes, client: Asking, period: int) -> None:
        refusal = self._expected(hmac, client, holds_first=False, needs_to_hold=period >= 0)
        if refusal is not None:
            with pytest.raises(refusal):
                expire(self.controller, hmac, client, period, self.now)
            return
        if period < 0:
            assert expire(self.controller, hmac, client, period, self.now) == self.now
            del self.live[hmac]
            self.gone.add(hmac)
            return
        token = self.live[hmac]
        until = min(token.max_timestamp, self.now + period)
        assert expire(self.controller, hmac, client, period, self.now) == until
        self.live[hmac] = token._replace(expiration_timestamp=until)

    @rule(later=st.integers(0, 60))
    def pass_time(self, later: int) -> None:
        self.now += later

    @rule()
    def sweep(self) -> None:
        records = list(self.controller.machine.tokens.expired(self.now))
        self.controller.apply(ControllerResult(None, records))
        dead = {h for h, token in self.live.items() if token.expiration_timestamp < self.now}
        assert len(records) == len(dead)
        for hmac in dead:
            del self.live[hmac]
        self.gone |= dead

    @rule()
    def fail_over(self) -> None:
        self.controller.fail_over()

    @invariant()
    def none_is_lost_and_none_comes_back(self) -> None:
        image = self.controller.image.delegation_tokens
        key = TokenKey(SECRET)
        assert {key.hmac_of(token_id): token for token_id, token in image.items()} == self.live
        assert not self.gone & self.live.keys()
        index = self.controller.machine.state.tokens
        assert index is not None
        assert all(index.find(hmac) is not None for hmac in self.live)
        assert all(index.find(hmac) is None for hmac in self.gone)


TestTokens = TokensMachine.TestCase
TestTokens.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
