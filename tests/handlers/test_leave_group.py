"""LeaveGroup in every version: one member, or several with an error each."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import leave_group
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


def leave(broker: GroupBroker, version: int, member_id: str) -> LeaveGroupResponse:
    request = LeaveGroupRequest(group_id="g")
    if version < 3:
        request.member_id = member_id
    else:
        request.members = [MemberIdentity(member_id=member_id)]
    return broker.ask(leave_group, request, version, LeaveGroupResponse)


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = broker.stable()
    response = leave(broker, version, joined.member_id)
    assert response.error_code == ErrorCode.NONE
    assert [member.error_code for member in response.members] == ([0] if version >= 3 else [])
    assert broker.groups.describe(["g"], 5)[0].group_state == "Empty"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("group_is_there", [False, True])
def test_a_stranger_is_refused_where_its_version_says_it(
    version: int, group_is_there: bool
) -> None:
    broker = GroupBroker()
    if group_is_there:
        broker.stable()
    response = leave(broker, version, "stranger")
    if version < 3:
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert response.error_code == ErrorCode.NONE
        (member,) = response.members
        assert (member.member_id, member.error_code) == ("stranger", 25)


def test_a_group_without_an_id_is_refused_as_a_whole() -> None:
    request = LeaveGroupRequest(members=[MemberIdentity(member_id="m")])
    response = GroupBroker().ask(leave_group, request, 5, LeaveGroupResponse)
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
