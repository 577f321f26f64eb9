"""SyncGroup (key 14): a member of a classic group asks for its assignment; the leader brings it.

The answer waits until the leader's assignment is stored.

v1 adds the throttle time; v3 the group instance id (static members, KIP-345); v4 is flexible; v5
names protocol type and name, which must then be there (KIP-559). v2 is as v1.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import InconsistentGroupProtocol
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, group_id

_PROTOCOL_FROM: Final = 5


async def handle(
    request: SyncGroupRequest, context: RequestContext, services: Services
) -> SyncGroupResponse:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.version >= _PROTOCOL_FROM and not has_protocol:
        raise InconsistentGroupProtocol
    return await services.groups.sync(request)


HANDLER: Final = Handler(
    SyncGroupRequest,
    handle,
    refuse=by_code(SyncGroupResponse),
    needs=[Whole(AclOperation.READ, ResourceType.GROUP, group_id)],
    waits_for_others=True,
)
