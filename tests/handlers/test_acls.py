"""DescribeAcls, CreateAcls and DeleteAcls, as far as they are not the controller's business."""

from typing import Any

import pytest
from tests.handlers.broker import Broker
from tests.handlers.secured import CLUSTER, DESCRIBE, READ, TOPIC, WRITE, Acls, alice, root

from ottla.common.authorization import CLUSTER_NAME, AclOperation, PatternType, Permission
from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers import create_acls, delete_acls, describe_acls
from ottla.metadata.acls import AclImage
from ottla.protocol.generated.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.protocol.generated.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.generated.describe_acls import DescribeAclsRequest, DescribeAclsResponse

VERSIONS = [1, 2, 3]
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CREATION = AclCreation(
    resource_type=TOPIC,
    resource_name="t",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:bob",
    host="*",
    operation=READ,
    permission_type=Permission.ALLOW,
)
CREATE = CreateAclsRequest(creations=[CREATION, CREATION])
DELETE = DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)] * 2)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def image_with(broker: Broker, *acls: AclImage) -> None:
    broker.set_image(acls={bytes([number]) * 16: acl for number, acl in enumerate(acls)})


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_described_resource_by_resource(broker: Broker, version: int) -> None:
    Acls(broker).add(DESCRIBE, CLUSTER, CLUSTER_NAME)
    image_with(
        broker,
        AclImage(TOPIC, "t", PatternType.LITERAL, "User:a", "*", READ, Permission.ALLOW),
        AclImage(TOPIC, "t", PatternType.PREFIXED, "User:a", "*", READ, Permission.ALLOW),
        AclImage(TOPIC, "t", PatternType.LITERAL, "User:b", "10.0.0.1", WRITE, Permission.DENY),
    )
    request = DescribeAclsRequest(**EVERYTHING)
    answer = broker.ask(describe_acls, request, version, DescribeAclsResponse, alice())
    assert answer.error_code == 0
    told = {
        (each.resource_type, each.resource_name, each.pattern_type): [
            (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls
        ]
        for each in answer.resources
    }
    assert told == {
        (TOPIC, "t", PatternType.LITERAL): [
            ("User:a", "*", READ, Permission.ALLOW),
            ("User:b", "10.0.0.1", WRITE, Permission.DENY),
        ],
        (TOPIC, "t", PatternType.PREFIXED): [("User:a", "*", READ, Permission.ALLOW)],
    }
    request = DescribeAclsRequest(**{**EVERYTHING, "principal_filter": "User:b"})
    answer = broker.ask(describe_acls, request, version, DescribeAclsResponse, alice())
    assert [[acl.principal for acl in each.acls] for each in answer.resources] == [["User:b"]]


def test_many_acls_are_described_in_turns(broker: Broker) -> None:
    Acls(broker)
    acls = {
        number.to_bytes(16, "big"): AclImage(TOPIC, f"t{number}", 3, "User:a", "*", READ, 3)
        for number in range(5_000)
    }
    broker.set_image(acls=acls)
    request = DescribeAclsRequest(**EVERYTHING)
    promise = broker.start(describe_acls, request, 3, root())
    assert not promise.done
    broker.set_image(acls={})
    broker.scheduler.run_for(0.0)
    assert len(promise.result().resources) == 5_000


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_filter_is_refused(broker: Broker, version: int) -> None:
    Acls(broker)
    request = DescribeAclsRequest(**{**EVERYTHING, "operation": 0})
    answer = broker.ask(describe_acls, request, version, DescribeAclsResponse, root())
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer_there_are_no_acls_to_speak_of(broker: Broker, version: int) -> None:
    disabled = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    asked = DescribeAclsRequest(**EVERYTHING)
    answer = broker.ask(describe_acls, asked, version, DescribeAclsResponse)
    assert (answer.error_code, answer.error_message) == disabled
    created = broker.ask(create_acls, CREATE, version, CreateAclsResponse)
    assert [(each.error_code, each.error_message) for each in created.results] == [disabled] * 2
    deleted = broker.ask(delete_acls, DELETE, version, DeleteAclsResponse)
    found = [(each.error_code, each.error_message) for each in deleted.filter_results]
    assert found == [disabled] * 2
    assert broker.controller.asked == []


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_alter_the_cluster_changes_acls(broker: Broker, version: int) -> None:
    acls = Acls(broker)
    acls.add(DESCRIBE, CLUSTER, CLUSTER_NAME)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    created = broker.ask(create_acls, CREATE, version, CreateAclsResponse, alice())
    assert [each.error_code for each in created.results] == [denied] * 2
    deleted = broker.ask(delete_acls, DELETE, version, DeleteAclsResponse, alice())
    assert [each.error_code for each in deleted.filter_results] == [denied] * 2
    assert broker.controller.asked == []
    acls.add(AclOperation.ALTER, CLUSTER, CLUSTER_NAME)
    broker.controller.answers = [CreateAclsResponse(), ApiError("no"), DeleteAclsResponse()]
    broker.ask(create_acls, CREATE, version, CreateAclsResponse, alice())
    created = broker.ask(create_acls, CREATE, version, CreateAclsResponse, alice())
    failed = (ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    assert [(each.error_code, each.error_message) for each in created.results] == [failed] * 2
    broker.ask(delete_acls, DELETE, version, DeleteAclsResponse, alice())
    assert [type(each) for each in broker.controller.asked] == [
        CreateAclsRequest,
        CreateAclsRequest,
        DeleteAclsRequest,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_describe_the_cluster_sees_no_acls(broker: Broker, version: int) -> None:
    Acls(broker).add(DESCRIBE, TOPIC, "t")
    image_with(broker, AclImage(TOPIC, "t", 3, "User:a", "*", READ, 3))
    request = DescribeAclsRequest(**EVERYTHING)
    answer = broker.ask(describe_acls, request, version, DescribeAclsResponse, alice())
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.resources == []
