"""DeleteGroups (key 42): groups without members go, with all their offsets.

v1 is as v0; v2 is flexible.
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.handlers.context import RequestContext, Services
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

KEY: Final = ApiKey.DELETE_GROUPS
VERSIONS: Final = (0, 2)


async def handle(
    request: DeleteGroupsRequest, _context: RequestContext, services: Services
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=await services.groups.delete(request.groups_names))


def refuse(request: DeleteGroupsRequest, code: ErrorCode, _message: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id in request.groups_names
        ]
    )
