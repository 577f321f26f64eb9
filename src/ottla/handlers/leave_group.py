"""LeaveGroup (key 13): members leave a classic group.

v1 adds the throttle time; v3 takes several members at once, also by their group instance ids
(KIP-345), each with an error of its own; v4 is flexible; v5 adds the reason, for people. Up to v2
there is one member, and its error is that of the whole. v2 is as v1.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ErrorCode, UnknownMemberId
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, group_id

_SEVERAL_MEMBERS_FROM: Final = 3


async def handle(
    request: LeaveGroupRequest, context: RequestContext, services: Services
) -> LeaveGroupResponse:
    if context.version < _SEVERAL_MEMBERS_FROM:
        request.members = [MemberIdentity(member_id=request.member_id)]
    try:
        response = await services.groups.leave(request)
    except UnknownMemberId:
        response = LeaveGroupResponse(members=[_unknown(member) for member in request.members])
    if context.version < _SEVERAL_MEMBERS_FROM:
        response = LeaveGroupResponse(error_code=response.members[0].error_code)
    return response


def _unknown(member: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


HANDLER: Final = Handler(
    LeaveGroupRequest,
    handle,
    refuse=by_code(LeaveGroupResponse),
    needs=[Whole(AclOperation.READ, ResourceType.GROUP, group_id)],
)
