"""DescribeUserScramCredentials: kinds of passwords and whose they are, never what is kept."""

import pytest
from tests.handlers.broker import Broker
from tests.handlers.secured import CLUSTER, DESCRIBE, Acls, alice

from ottla.common.authorization import CLUSTER_NAME
from ottla.common.errors import ErrorCode
from ottla.handlers import describe_user_scram_credentials
from ottla.protocol.generated.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ottla.security.scram import ScramCredential

SHA_256, SHA_512 = 1, 2


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    keys = ScramCredential(b"the-salt", b"the-stored-key", b"the-server-key", 4096)
    broker.set_image(
        scram={
            (SHA_256, "bob"): keys,
            (SHA_512, "bob"): keys._replace(iterations=8192),
            (SHA_512, "carol"): keys,
        }
    )
    return broker


def asked(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def described(
    broker: Broker, request: DescribeUserScramCredentialsRequest
) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    Acls(broker).add(DESCRIBE, CLUSTER, CLUSTER_NAME)
    handler, kind = describe_user_scram_credentials, DescribeUserScramCredentialsResponse
    response = broker.ask(handler, request, 0, kind, alice())
    assert response.error_code == 0
    assert "the-" not in repr(response)
    return {
        each.user: (
            each.error_code,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in response.results
    }


BOB = (0, [(SHA_256, 4096), (SHA_512, 8192)])


@pytest.mark.parametrize("everybody", [asked(), DescribeUserScramCredentialsRequest(users=None)])
def test_everybody(broker: Broker, everybody: DescribeUserScramCredentialsRequest) -> None:
    assert described(broker, everybody) == {"bob": BOB, "carol": (0, [(SHA_512, 4096)])}


def test_who_is_named_and_who_is_not_there_and_who_is_named_twice(broker: Broker) -> None:
    assert described(broker, asked("bob", "dave", "carol", "carol")) == {
        "bob": BOB,
        "dave": (ErrorCode.RESOURCE_NOT_FOUND, []),
        "carol": (ErrorCode.DUPLICATE_RESOURCE, []),
    }


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (asked("bob", "dave"), ["bob", "dave"]),
        (DescribeUserScramCredentialsRequest(users=None), []),
    ],
)
def test_who_may_not_describe_the_cluster_hears_only_the_names_that_it_said(
    broker: Broker, request_: DescribeUserScramCredentialsRequest, named: list[str]
) -> None:
    """With all users asked for, Kafka's broker fails while it refuses, and never answers."""
    Acls(broker)
    handler = describe_user_scram_credentials
    response = broker.ask(handler, request_, 0, DescribeUserScramCredentialsResponse, alice())
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.user for each in response.results] == named
    assert all(not each.credential_infos for each in response.results)
