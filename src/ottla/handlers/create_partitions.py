"""CreatePartitions (key 37): more partitions for a topic; there can never be fewer (KIP-195).

v1 as v0; v2 flexible; v3 THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import Each, its_name


async def handle(
    request: CreatePartitionsRequest, _context: RequestContext, services: ControllerServices
) -> CreatePartitionsResponse:
    return await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request),
    )


def refuse(
    request: CreatePartitionsRequest, error: ApiError, _version: int
) -> CreatePartitionsResponse:
    """Each topic that was named gets the error."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message or None
            )
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )


HANDLER: Final = Handler(
    CreatePartitionsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.ALTER,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.results,
        )
    ],
    quota=Quota.CONTROLLER_MUTATION,
    timeout_ms=client_timeout_ms,
)
