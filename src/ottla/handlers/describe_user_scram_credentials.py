"""DescribeUserScramCredentials (key 50): which users have passwords, and of what kind (KIP-554).

What is kept of the passwords themselves is never told. There is v0 only.
"""

from collections import Counter
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, DuplicateResource, ResourceNotFound
from ottla.metadata.scram import ScramImage
from ottla.protocol.generated.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


def handle(
    request: DescribeUserScramCredentialsRequest, _context: RequestContext, services: NodeServices
) -> DescribeUserScramCredentialsResponse:
    by_user = _by_user(services.metadata.image.scram)
    response = DescribeUserScramCredentialsResponse(error_message=None)
    if not request.users:
        response.results = [
            DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=each)
            for name, each in sorted(by_user.items())
        ]
        return response
    for name, times in Counter(user.name for user in request.users).items():
        found = by_user.get(name)
        if times > 1:
            error: ApiError = DuplicateResource(
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                f"{name}"
            )
        elif found is None:
            error = ResourceNotFound(
                f"Attempt to describe a user credential that does not exist: {name}"
            )
        else:
            response.results.append(
                DescribeUserScramCredentialsResult(
                    user=name, error_message=None, credential_infos=found
                )
            )
            continue
        response.results.append(_refused(name, error))
    return response


def _by_user(scram: ScramImage) -> dict[str, list[CredentialInfo]]:
    users: dict[str, list[CredentialInfo]] = {}
    for (mechanism, name), credential in sorted(scram.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        users.setdefault(name, []).append(info)
    return users


def _refused(name: str, error: ApiError) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error.code, error_message=error.message or None
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, error: ApiError, _version: int
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=error.message or None,
        results=[_refused(user.name, error) for user in request.users or ()],
    )


HANDLER: Final = Handler(
    DescribeUserScramCredentialsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
)
