"""CreatePartitions (key 37): more partitions for a topic; there can never be fewer (KIP-195).

v1 as v0; v2 flexible; v3 THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.handlers.context import ControllerServices, RequestContext
from ottla.handlers.deadlines import within
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

KEY: Final = ApiKey.CREATE_PARTITIONS
VERSIONS: Final = (0, 3)


async def handle(
    request: CreatePartitionsRequest, _context: RequestContext, services: ControllerServices
) -> CreatePartitionsResponse:
    return await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request),
    )


def refuse(
    request: CreatePartitionsRequest, code: ErrorCode, message: str
) -> CreatePartitionsResponse:
    """Each topic that was named gets the error."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=message or None)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )
