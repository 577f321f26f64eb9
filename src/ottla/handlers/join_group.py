"""JoinGroup (key 11): a member comes to a classic group, or comes again because it rebalances.

The answer waits until the group has its next generation; the leader is also told who is in it.

v1 adds the rebalance timeout, which in v0 is the session timeout; v2 the throttle time; v4 hands
out a member id first (KIP-394); v5 adds the group instance id (static members, KIP-345); v6 is
flexible; v7 names the protocol type and allows a null protocol name; v8 adds the reason, for
people; v9 lets a leader skip the assignment (KIP-814). v3 is as v2.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.requests.callers import caller_of
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole, group_id

_REBALANCE_TIMEOUT_FROM: Final = 1
_NULL_PROTOCOL_NAME_FROM: Final = 7


async def handle(
    request: JoinGroupRequest, context: RequestContext, services: Services
) -> JoinGroupResponse:
    if context.version < _REBALANCE_TIMEOUT_FROM:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = caller_of(context, services)
    response = await services.groups.join(request, caller)
    if response.protocol_name is None and context.version < _NULL_PROTOCOL_NAME_FROM:
        response.protocol_name = ""
    return response


def refuse(_request: JoinGroupRequest, error: ApiError, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, protocol_name=None if version >= _NULL_PROTOCOL_NAME_FROM else ""
    )


HANDLER: Final = Handler(
    JoinGroupRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.READ, ResourceType.GROUP, group_id)],
    waits_for_others=True,
)
