"""CreateAcls (key 30): ACLs are added, each for itself; the controller writes them.

v1 is the first that is served: prefixed patterns (KIP-290); v2 is flexible; v3 users (KIP-373).
"""

from typing import Final

from ottla.common.authorization import NO_AUTHORIZER, AclOperation, ResourceType
from ottla.common.errors import ApiError, SecurityDisabled
from ottla.protocol.generated.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


async def handle(
    request: CreateAclsRequest, _context: RequestContext, services: ControllerServices
) -> CreateAclsResponse:
    if not services.authorizer.enforces:
        raise SecurityDisabled(NO_AUTHORIZER)
    return await services.controller.submit(request)


def refuse(request: CreateAclsRequest, error: ApiError, _version: int) -> CreateAclsResponse:
    """Each ACL gets the error."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.message or None)
            for _ in request.creations
        ]
    )


HANDLER: Final = Handler(
    CreateAclsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)
