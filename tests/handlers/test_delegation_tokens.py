"""Delegation tokens, as far as they are not the controller's business: who may ask, who may see."""

from itertools import product
from typing import Any

import pytest
from tests.controller.machines import Controller
from tests.handlers.broker import Broker, Peer
from tests.handlers.secured import ALICE, DESCRIBE, Acls

from ottla.common.authorization import ANONYMOUS, AclOperation, Client, Principal, ResourceType
from ottla.common.errors import ApiError, ErrorCode, NotController
from ottla.common.promise import Promise
from ottla.handlers import (
    create_delegation_token,
    describe_delegation_token,
    envelope,
    expire_delegation_token,
    renew_delegation_token,
)
from ottla.handlers.envelope import enclose
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.protocol.generated.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.generated.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.generated.envelope import EnvelopeResponse
from ottla.protocol.generated.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message, from_buffer, to_bytes
from ottla.protocol.primitives import Writer
from ottla.requests.dispatch import BrokerDispatcher, ControllerDispatcher
from ottla.security.delegation_tokens import TokenKey
from ottla.simulation.scheduler import SimulatedScheduler

SECRET = "the cluster's own"
BY_TOKEN = Principal("User", "alice", token_authenticated=True)
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "SAFE": "SASL_SSL",
    "CONTROLLER": "SASL_SSL",
}
SECURED = {
    "listeners": ",".join(f"{name}://:{9090 + at}" for at, name in enumerate(PROTOCOLS)),
    "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in PROTOCOLS.items()),
    "inter.broker.listener.name": "LOGIN",
    "controller.quorum.voters": "1@localhost:9094",
    "delegation.token.secret.key": SECRET,
}
REQUESTS: list[tuple[Message, type[Any]]] = [
    (CreateDelegationTokenRequest(), CreateDelegationTokenResponse),
    (RenewDelegationTokenRequest(hmac=b"x"), RenewDelegationTokenResponse),
    (ExpireDelegationTokenRequest(hmac=b"x"), ExpireDelegationTokenResponse),
    (DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse),
]


class ControllerWithTokens:
    """Takes note of who asks; all that it is asked is done at once."""

    def __init__(self, broker: Broker) -> None:
        self.clients: list[Client] = []
        self._broker = broker
        self.controller = Controller(delegation_token_secret_key=SECRET)

    def submit(self, request: Message, client: Client | None = None) -> Promise[Message]:
        assert client is not None
        self.clients.append(client)
        tokens = self.controller.machine.tokens
        promise: Promise[Message] = Promise(self._broker.scheduler.turn)
        decide: Any = {
            CreateDelegationTokenRequest: tokens.create_token,
            RenewDelegationTokenRequest: tokens.renew_token,
            ExpireDelegationTokenRequest: tokens.expire_token,
        }[type(request)]
        try:
            promise.fulfil(self.controller.apply(decide(request, client, 1000)))
        except ApiError as error:
            promise.fail(error)
        self._broker.set_image(
            delegation_tokens=self.controller.image.delegation_tokens,
        )
        return promise


class TokenBroker(Broker):
    def __init__(self, **changed: str) -> None:
        super().__init__({**SECURED, **changed})
        self.tokens = ControllerWithTokens(self)
        self.services.controller = self.tokens  # type: ignore[assignment]
        self.dispatcher = BrokerDispatcher(self.services)
        self.at_controller = ControllerDispatcher(self.services)  # type: ignore[arg-type]

    def client(self, principal: Principal = ALICE, listener: str = "LOGIN") -> Peer:
        peer = Peer(listener)
        peer.principal = principal
        return peer

    def over_wire(
        self,
        request: Message,
        version: int,
        response: type[Any],
        peer: Peer,
        *,
        of_controller: bool = False,
    ) -> Any:
        out = Writer()
        encode_request_header(
            out, api_key=request.API_KEY, version=version, correlation_id=7, client_id="c"
        )
        frame = memoryview(bytearray(out.getvalue() + to_bytes(request, version)))
        dispatcher: Any = self.at_controller if of_controller else self.dispatcher
        answer = dispatcher.answer(peer, frame)
        if isinstance(answer, Promise):
            answer = answer.result()
        assert isinstance(answer, bytes)
        return from_buffer(response, answer, 9 if version >= 2 else 8, version)[0]


ANYONE = [
    *product(PROTOCOLS, [ALICE, ANONYMOUS, BY_TOKEN]),
]


@pytest.mark.parametrize("of_controller", [False, True])
@pytest.mark.parametrize(("listener", "principal"), ANYONE)
@pytest.mark.parametrize(
    ("request_", "response"), REQUESTS, ids=lambda x: getattr(x, "API_KEY", "")
)
def test_who_may_ask_for_tokens(
    request_: Message, response: type[Any], listener: str, principal: Principal, of_controller: bool
) -> None:
    """Clients that have shown who they are, by other means than a token."""
    broker = TokenBroker()
    peer = broker.client(principal, listener)
    may = principal is not BY_TOKEN and (
        listener in ("LOGIN", "SAFE", "CONTROLLER") or (listener == "TLS" and principal is ALICE)
    )
    answer = broker.over_wire(request_, 2, response, peer, of_controller=of_controller)
    refused = answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert refused != may
    if refused:
        assert broker.tokens.clients == []
        assert getattr(answer, "expiry_timestamp_ms", -1) == -1


def forwarded(broker: TokenBroker, request: Any, principal: Principal, response: Any) -> Any:
    peer = broker.client(principal, "PLAINTEXT")
    sealed = enclose(request, broker.context(0, peer))
    answer = broker.ask(envelope, sealed, 0, EnvelopeResponse)
    assert answer.error_code == ErrorCode.NONE
    assert answer.response_data is not None
    return from_buffer(response, answer.response_data, 5, response.HIGHEST_VERSION)[0]


def test_what_a_broker_sends_on_it_has_let_pass_but_never_a_token_for_a_token() -> None:
    """The controller does not see the client's connection; whether it showed a token, it does."""
    broker = TokenBroker()
    for request, response in REQUESTS[:3]:
        asked = forwarded(broker, request, ALICE, response)
        assert asked.error_code in (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        refused = forwarded(broker, request, BY_TOKEN, response)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert {str(client.principal) for client in broker.tokens.clients} == {"User:alice"}
    (token,) = broker.metadata.image.delegation_tokens.values()
    assert token.owner == "User:alice"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_answer_says_whose_the_token_is_and_who_asked(version: int) -> None:
    broker = TokenBroker()
    request = CreateDelegationTokenRequest(max_lifetime_ms=500)
    if version == 3:
        request.owner_principal_type, request.owner_principal_name = "User", "bob"
    made = broker.over_wire(request, version, CreateDelegationTokenResponse, broker.client())
    assert (made.error_code, made.principal_name) == (0, "bob" if version == 3 else "alice")
    assert made.token_requester_principal_name == ("alice" if version == 3 else "")
    assert made.hmac == TokenKey(SECRET).hmac_of(made.token_id)
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms) == (1000, 1500)


@pytest.mark.parametrize("of_controller", [False, True])
def test_a_token_for_another_needs_a_right_on_that_user(of_controller: bool) -> None:
    broker = TokenBroker()
    acls = Acls(broker)
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")

    def ask() -> CreateDelegationTokenResponse:
        peer, response = broker.client(), CreateDelegationTokenResponse
        answer = broker.over_wire(request, 3, response, peer, of_controller=of_controller)
        assert isinstance(answer, CreateDelegationTokenResponse)
        return answer

    refused = ask()
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert (refused.issue_timestamp_ms, refused.max_timestamp_ms, refused.hmac) == (-1, -1, b"")
    assert broker.tokens.clients == []
    acls.add(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    assert ask().error_code == ErrorCode.NONE
    request.owner_principal_name = "alice"
    assert ask().error_code == ErrorCode.NONE  # one's own need no right


def test_a_renewer_that_is_no_user_is_refused_by_the_broker() -> None:
    broker = TokenBroker()
    renewer = CreatableRenewers(principal_type="Group", principal_name="g")
    request = CreateDelegationTokenRequest(renewers=[renewer])
    peer, response = broker.client(), CreateDelegationTokenResponse
    refused = broker.over_wire(request, 3, response, peer)
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (refused.principal_name, refused.issue_timestamp_ms) == ("alice", -1)
    assert broker.tokens.clients == []
    at_controller = broker.over_wire(request, 3, response, peer, of_controller=True)
    assert at_controller.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize("version", [1, 2])
def test_a_token_is_renewed_and_expired_by_its_owner_alone(version: int) -> None:
    broker = TokenBroker()
    made = broker.over_wire(REQUESTS[0][0], version, CreateDelegationTokenResponse, broker.client())
    mallory = broker.client(Principal("User", "mallory"))
    for request, response in (
        (RenewDelegationTokenRequest(hmac=made.hmac), RenewDelegationTokenResponse),
        (
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1),
            ExpireDelegationTokenResponse,
        ),
    ):
        refused = broker.over_wire(request, version, response, mallory)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert refused.expiry_timestamp_ms == 0
        done = broker.over_wire(request, version, response, broker.client())
        assert done.error_code == ErrorCode.NONE
        assert done.expiry_timestamp_ms >= 1000
    assert broker.metadata.image.delegation_tokens == {}


# What is seen


def token(owner: str, requester: str, *renewers: str) -> DelegationToken:
    return DelegationToken(owner, requester, renewers, 1, 9, 5)


TOKENS = {
    "own": token("User:alice", "User:alice"),
    "made": token("User:bob", "User:alice"),
    "renewed": token("User:bob", "User:bob", "User:carol", "User:alice"),
    "others": token("User:bob", "User:bob"),
    "strangers": token("User:dave", "User:dave"),
}


def seen(broker: TokenBroker, *owners: str, version: int = 3, everything: bool = False) -> set[str]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=n) for n in owners]
    request = DescribeDelegationTokenRequest(owners=None if everything else named)
    response = DescribeDelegationTokenResponse
    answer = broker.over_wire(request, version, response, broker.client())
    assert answer.error_code == ErrorCode.NONE
    return {each.token_id for each in answer.tokens}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_whose_tokens_are_seen(version: int) -> None:
    broker = TokenBroker()
    acls = Acls(broker)
    broker.set_image(delegation_tokens=TOKENS)
    concerned = {"own", "made", "renewed"}
    assert seen(broker, everything=True, version=version) == concerned
    assert seen(broker, version=version) == set()
    assert seen(broker, "bob", version=version) == {"made", "renewed"}
    assert seen(broker, "carol", "nobody", version=version) == {"renewed"}
    of_one = acls.add(DESCRIBE, ResourceType.DELEGATION_TOKEN, "others")
    assert seen(broker, everything=True, version=version) == concerned | {"others"}
    acls.remove(of_one)
    acls.add(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:dave")
    assert seen(broker, everything=True, version=version) == concerned | {"strangers"}
    assert seen(broker, "bob", version=version) == {"made", "renewed"}


def test_without_an_authorizer_all_are_seen() -> None:
    broker = TokenBroker()
    broker.set_image(delegation_tokens=TOKENS)
    assert seen(broker, everything=True) == set(TOKENS)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_told_of_a_token(version: int) -> None:
    broker = TokenBroker()
    broker.set_image(delegation_tokens={"made": TOKENS["made"], "renewed": TOKENS["renewed"]})
    response = DescribeDelegationTokenResponse
    request = DescribeDelegationTokenRequest(owners=None)
    answer = broker.over_wire(request, version, response, broker.client())
    made, renewed = answer.tokens
    assert (made.principal_type, made.principal_name, made.token_id) == ("User", "bob", "made")
    assert made.token_requester_principal_name == ("alice" if version == 3 else "")
    assert (made.issue_timestamp, made.expiry_timestamp, made.max_timestamp) == (1, 5, 9)
    assert made.hmac == TokenKey(SECRET).hmac_of("made")
    assert made.renewers == []
    told = [(each.principal_type, each.principal_name) for each in renewed.renewers]
    assert told == [("User", "carol"), ("User", "alice")]


def test_without_a_key_nothing_is_shown() -> None:
    broker = Broker({**SECURED, "delegation.token.secret.key": ""})
    broker.set_image(delegation_tokens=TOKENS)
    peer = Peer("LOGIN")
    request = DescribeDelegationTokenRequest(owners=None)
    response = DescribeDelegationTokenResponse
    answer = broker.ask(describe_delegation_token, request, 3, response, peer)
    assert (answer.error_code, answer.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])


def test_a_great_many_tokens_are_shown_in_turns() -> None:
    broker = TokenBroker()
    many = {f"t{number}": TOKENS["own"] for number in range(1_700)}
    broker.set_image(delegation_tokens=many)
    request = DescribeDelegationTokenRequest(owners=None)
    promise = broker.start(describe_delegation_token, request, 3, broker.client())
    assert not promise.done
    assert isinstance(broker.scheduler, SimulatedScheduler)
    broker.scheduler.run_for(0.1)
    assert len(promise.result().tokens) == 1_700


# A controller that cannot be asked


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (create_delegation_token, CreateDelegationTokenRequest()),
        (renew_delegation_token, RenewDelegationTokenRequest()),
        (expire_delegation_token, ExpireDelegationTokenRequest()),
    ],
)
def test_a_refusal_of_the_whole_can_be_said_in_every_version(handler: Any, request_: Any) -> None:
    contract = handler.HANDLER
    for version in range(contract.lowest, contract.highest + 1):
        refused = contract.refuse(request_, NotController(), version)
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        assert to_bytes(refused, version)
