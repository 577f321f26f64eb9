"""DeleteAcls (key 31): ACLs that filters mean are removed, and told; the controller writes it.

v1 is the first that is served: prefixed patterns (KIP-290); v2 is flexible; v3 users (KIP-373).
"""

from typing import Final

from ottla.common.authorization import NO_AUTHORIZER, AclOperation, ResourceType
from ottla.common.errors import ApiError, SecurityDisabled
from ottla.protocol.generated.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


async def handle(
    request: DeleteAclsRequest, _context: RequestContext, services: ControllerServices
) -> DeleteAclsResponse:
    if not services.authorizer.enforces:
        raise SecurityDisabled(NO_AUTHORIZER)
    return await services.controller.submit(request)


def refuse(request: DeleteAclsRequest, error: ApiError, _version: int) -> DeleteAclsResponse:
    """Each filter gets the error."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message or None)
            for _ in request.filters
        ]
    )


HANDLER: Final = Handler(
    DeleteAclsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)
