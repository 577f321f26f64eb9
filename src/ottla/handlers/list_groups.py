"""ListGroups (key 16): the groups that this broker coordinates.

v1 adds the throttle time; v3 is flexible; v4 filters by and shows states (KIP-518), v5 types
(KIP-848). v2 is as v1.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Hidden


def handle(
    request: ListGroupsRequest, _context: RequestContext, services: Services
) -> ListGroupsResponse:
    groups = services.groups.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(groups=groups)


HANDLER: Final = Handler(
    ListGroupsRequest,
    handle,
    refuse=by_code(ListGroupsResponse),
    needs=[
        Hidden(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda response: [response.groups],
            lambda item: item.group_id,
            otherwise=((AclOperation.DESCRIBE, ResourceType.CLUSTER),),
        )
    ],
)
