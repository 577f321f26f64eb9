"""AlterPartitionReassignments (key 45): move partitions to other replicas, or undo it (KIP-455).

v1 lets the caller forbid that the number of replicas changes by it (KIP-860).
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.handlers.context import ControllerServices, RequestContext
from ottla.handlers.deadlines import within
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

KEY: Final = ApiKey.ALTER_PARTITION_REASSIGNMENTS
VERSIONS: Final = (0, 1)


async def handle(
    request: AlterPartitionReassignmentsRequest,
    _context: RequestContext,
    services: ControllerServices,
) -> AlterPartitionReassignmentsResponse:
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    return await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request),
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    """Each partition that was named gets the error, and so does the whole."""
    text = message or None
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=code,
                        error_message=text,
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
