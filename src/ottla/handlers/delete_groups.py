"""DeleteGroups (key 42): groups without members go, with all their offsets.

v1 is as v0; v2 is flexible.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, itself


async def handle(
    request: DeleteGroupsRequest, _context: RequestContext, services: Services
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=await services.groups.delete(request.groups_names))


def refuse(request: DeleteGroupsRequest, error: ApiError, _version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error.code)
            for group_id in request.groups_names
        ]
    )


HANDLER: Final = Handler(
    DeleteGroupsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DELETE,
            ResourceType.GROUP,
            lambda request: request.groups_names,
            itself,
            lambda response: response.results,
        )
    ],
)
