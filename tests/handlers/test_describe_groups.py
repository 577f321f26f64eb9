"""DescribeGroups in every version."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers import describe_groups
from ottla.protocol.generated.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_ASKED = -(1 << 31)


def ask(
    broker: GroupBroker, request: DescribeGroupsRequest, version: int
) -> DescribeGroupsResponse:
    return broker.ask(describe_groups, request, version, DescribeGroupsResponse)


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = broker.stable()
    stable, gone = ask(broker, DescribeGroupsRequest(groups=["g", "gone"]), version).groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = stable.members
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"mine")
    assert gone.group_state == "Dead"
    assert gone.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert gone.error_message == ("Group gone not found." if version >= 6 else None)
    assert stable.authorized_operations == NOT_ASKED


def test_operations_are_told_on_request_of_groups_that_are_there() -> None:
    broker = GroupBroker()
    broker.stable()
    request = DescribeGroupsRequest(groups=["g", "gone"], include_authorized_operations=True)
    stable, gone = ask(broker, request, 6).groups
    assert (stable.authorized_operations, gone.authorized_operations) == (3400, NOT_ASKED)


def test_a_request_that_fails_as_a_whole_fails_for_each_group() -> None:
    request = DescribeGroupsRequest(groups=["a", "b"])
    refused = describe_groups.refuse(request, ApiError(), 0)
    assert [(group.group_id, group.error_code) for group in refused.groups] == [
        ("a", -1),
        ("b", -1),
    ]
