"""APIs 38 to 41 on listeners where clients log in, where they do not, and on the controller's."""

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.differential.conftest import TARGET
from tests.differential.wire import Connection
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, free_ports, ottla

from ottla.common.errors import ErrorCode

Json = Any
USERS = ("node", "alice", "bob", "carol")
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="node-secret" '
    + " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    + ";"
)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MINUTE_MS = 60_000
LONG_MS = 90_000 * MINUTE_MS
SETTLE_SECONDS = 0.5
USER, TOKEN = 7, 6
CREATE_TOKENS, DESCRIBE_TOKENS, DESCRIBE = 13, 14, 8


class Secured:
    """One of the two brokers."""

    def __init__(self, broker: BrokerProcess, open_port: int) -> None:
        self.broker = broker
        self.ports = {
            "LOGIN": broker.port,
            "OPEN": open_port,
            "CONTROLLER": broker.controller_port,
        }
        self.hmacs: dict[str, bytes] = {}
        self.ids: dict[str, str] = {}

    def ask(
        self, who: str | None, api: str, version: int, *, at: str = "LOGIN", **fields: Json
    ) -> Json:
        with Connection(self.ports[at]) as connection:
            if who is not None:
                connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
                word = f"\0{who}\0{who}-secret".encode()
                let_in = connection.ask("SaslAuthenticate", 2, {"auth_bytes": word})
                assert let_in["errorCode"] == 0, let_in
            if isinstance(fields.get("hmac"), str):
                fields["hmac"] = self.hmacs.get(fields["hmac"], b"nobody's")
            return connection.ask(api, version, fields)


Both = tuple[Secured, Secured]


def settings(port: int, open_port: int, controller_port: int) -> dict[str, str]:
    return {
        "listeners": f"LOGIN://127.0.0.1:{port},OPEN://127.0.0.1:{open_port},"
        f"CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,OPEN:PLAINTEXT,"
        "CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "LOGIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": JAAS,
        "listener.name.controller.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:node",
        "delegation.token.secret.key": "the same on both sides",
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    theirs = apache_kafka(heap=("-Xmx512M",))
    found = []
    try:
        for name, program in (
            ("ours", theirs if TARGET == "kafka" else ottla()),
            ("their", theirs),
        ):
            broker = BrokerProcess(program, tmp_path_factory.mktemp(name))
            (open_port,) = free_ports(1)
            broker.settings = settings(broker.port, open_port, broker.controller_port)
            found.append(Secured(broker, open_port))
            broker.start()
        for each in found:
            allow(each, CREATE_TOKENS, USER, "User:bob")
            allow(each, DESCRIBE_TOKENS, USER, "User:bob")
        yield found[0], found[1]
    finally:
        for each in found:
            each.broker.kill()


def allow(side: Secured, operation: int, kind: int, name: str) -> None:
    """Alice may do something."""
    creation = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": operation,
        "permission_type": 3,
    }
    made = side.ask("node", "CreateAcls", 3, creations=[creation])
    assert made["results"][0]["errorCode"] == 0, made


def told(answer: Json, now_ms: float) -> Json:
    """An answer with words for what is each cluster's own; times in minutes from now."""
    if isinstance(answer, list):
        return sorted((told(each, now_ms) for each in answer), key=repr)
    if not isinstance(answer, dict):
        return answer
    plain: dict[str, Json] = {}
    for key, value in answer.items():
        if key in ("tokenId", "hmac"):
            plain[key] = "<secret>" if value else value
        elif "imestamp" in key and value > 0:
            plain[key] = f"<in {round((value - now_ms) / MINUTE_MS)} minutes>"
        else:
            plain[key] = told(value, now_ms)
    return plain


def compare(both: Both, scenario: str, ask: Callable[[Secured], Json]) -> Json:
    now_ms = time.time() * 1000
    ours, theirs = (told(ask(side), now_ms) for side in both)
    assert ours == theirs, scenario
    return theirs


def await_token(side: Secured, token_id: str, *, there: bool) -> None:
    """Apache's controller knows its own tokens only when they come back to it from the log."""

    def is_so() -> bool:
        found = side.ask("node", "DescribeDelegationToken", 3, owners=None)
        return there == (token_id in [each["tokenId"] for each in found["tokens"]])

    eventually(is_so, f"token {token_id}")


def create(both: Both, scenario: str, who: str | None, version: int, **fields: Json) -> Json:
    """A token on both sides; it is known by ``scenario`` then."""

    def ask(side: Secured) -> Json:
        at = fields.get("at", "LOGIN")
        words = {key: value for key, value in fields.items() if key != "at"}
        words.setdefault("max_lifetime_ms", -1)
        answer = side.ask(who, "CreateDelegationToken", version, at=at, **words)
        side.hmacs[scenario] = base64.b64decode(answer["hmac"])
        side.ids[scenario] = answer["tokenId"]
        if answer["tokenId"]:
            await_token(side, answer["tokenId"], there=True)
        return answer

    return compare(both, scenario, ask)


def user(name: str, kind: str = "User") -> dict[str, str]:
    return {"principal_type": kind, "principal_name": name}


BOBS = {"owner_principal_type": "User", "owner_principal_name": "bob"}
CAROLS = {"owner_principal_type": "User", "owner_principal_name": "carol"}


def test_creation(both: Both) -> None:
    for version in (1, 2, 3):
        create(both, f"own {version}", "alice", version, renewers=[user("carol")])
        create(both, "short", "alice", version, max_lifetime_ms=5 * MINUTE_MS)
        create(both, "for ever", "alice", version, max_lifetime_ms=(1 << 63) - 1)
        create(both, "nothing", "alice", version, max_lifetime_ms=0)
        refused = create(both, "group", "alice", version, renewers=[user("g", "Group")])
        assert refused["errorCode"] == ErrorCode.INVALID_PRINCIPAL_TYPE
        refused = create(both, "open", None, version, at="OPEN")
        assert refused["errorCode"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        create(both, "controller", "alice", version, at="CONTROLLER")
        create(
            both, "at controller, group", "alice", version, at="CONTROLLER",
            renewers=[user("g", "Group")],
        )  # fmt: skip
    made = create(both, "for bob", "alice", 3, **BOBS)
    assert (made["principalName"], made["tokenRequesterPrincipalName"]) == ("bob", "alice")
    for at in ("LOGIN", "CONTROLLER"):
        refused = create(both, "for carol", "alice", 3, at=at, **CAROLS)
        assert refused["errorCode"] == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    refused = create(both, "for bob openly", None, 3, at="OPEN", **BOBS)
    assert refused["errorCode"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("api", "field"),
    [
        ("RenewDelegationToken", "renew_period_ms"),
        ("ExpireDelegationToken", "expiry_time_period_ms"),
    ],
)
def test_renewal_and_expiry(both: Both, api: str, field: str) -> None:
    name = f"to {api}"
    create(both, name, "alice", 3, renewers=[user("carol")], max_lifetime_ms=600 * MINUTE_MS)
    for version in (1, 2):
        for who, period in (
            ("alice", 5 * MINUTE_MS), ("carol", 10 * MINUTE_MS), ("alice", LONG_MS),
            ("alice", 0 if "Renew" in api else (1 << 63) - 1), ("bob", 5), ("node", 5),
        ):  # fmt: skip
            compare(
                both,
                f"{who} {api} {period}",
                lambda side, v=version, w=who, p=period: side.ask(  # type: ignore[misc]
                    w, api, v, hmac=name, **{field: p}
                ),
            )
        strangers = ((None, "OPEN"), ("alice", "CONTROLLER"), ("alice", "LOGIN"))
        for stranger, at in strangers:
            compare(
                both,
                f"an unknown token at {at}",
                lambda side, v=version, w=stranger, a=at: side.ask(  # type: ignore[misc]
                    w, api, v, at=a, hmac="unknown", **{field: 5}
                ),
            )


def test_removal(both: Both) -> None:
    for version in (1, 2):
        create(both, "to be removed", "alice", 3)
        for who in ("bob", "alice", "alice"):
            compare(
                both,
                f"removal by {who}",
                lambda side, v=version, w=who: side.ask(  # type: ignore[misc]
                    w, "ExpireDelegationToken", v, hmac="to be removed", expiry_time_period_ms=-1
                ),
            )
            if who == "alice":
                for side in both:
                    await_token(side, side.ids["to be removed"], there=False)


def test_what_has_expired(both: Both) -> None:
    create(both, "dead", "alice", 3, max_lifetime_ms=1)
    time.sleep(0.05)
    for version in (1, 2):
        for who in ("alice", "bob"):
            for api, field in (
                ("RenewDelegationToken", "renew_period_ms"),
                ("ExpireDelegationToken", "expiry_time_period_ms"),
            ):
                compare(
                    both,
                    f"{api} of a dead token by {who}",
                    lambda side, v=version, w=who, a=api, f=field: side.ask(  # type: ignore[misc]
                        w, a, v, hmac="dead", **{f: 5000}
                    ),
                )


def test_description(both: Both) -> None:
    create(both, "of bob", "bob", 3, renewers=[user("carol")])
    create(both, "of node", "node", 3)
    for side in both:
        allow(side, DESCRIBE, TOKEN, side.ids["of node"])
    time.sleep(SETTLE_SECONDS)  # changes of a token's end come back from the log as well
    for version in (1, 2, 3):
        for who in USERS:
            for owners in (None, [], [user("bob")], [user("node"), user("carol")], [user("x")]):
                compare(
                    both,
                    f"{who} looks for {owners}",
                    lambda side, v=version, w=who, o=owners: side.ask(  # type: ignore[misc]
                        w, "DescribeDelegationToken", v, owners=o
                    ),
                )
        refused = compare(
            both,
            "openly",
            lambda side, v=version: side.ask(  # type: ignore[misc]
                None, "DescribeDelegationToken", v, at="OPEN", owners=None
            ),
        )
        assert refused["errorCode"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
