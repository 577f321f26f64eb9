"""AlterUserScramCredentials (key 51): give users passwords, or take them away (KIP-554).

There is v0 only.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


async def handle(
    request: AlterUserScramCredentialsRequest,
    _context: RequestContext,
    services: ControllerServices,
) -> AlterUserScramCredentialsResponse:
    return await services.controller.submit(request)


def refuse(
    request: AlterUserScramCredentialsRequest, error: ApiError, _version: int
) -> AlterUserScramCredentialsResponse:
    """Each user that was named gets the error."""
    names = [entry.name for entry in request.deletions]
    names += [entry.name for entry in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=error.code, error_message=error.message or None
            )
            for name in dict.fromkeys(names)
        ]
    )


HANDLER: Final = Handler(
    AlterUserScramCredentialsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)
