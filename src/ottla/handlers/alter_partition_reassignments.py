"""AlterPartitionReassignments (key 45): move partitions to other replicas, or undo it (KIP-455).

v1 lets the caller forbid that the number of replicas changes by it (KIP-860).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import Whole


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
    request: AlterPartitionReassignmentsRequest, error: ApiError, _version: int
) -> AlterPartitionReassignmentsResponse:
    """Each partition that was named gets the error, and so does the whole."""
    text = error.message or None
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=text,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=error.code,
                        error_message=text,
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLER: Final = Handler(
    AlterPartitionReassignmentsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    timeout_ms=client_timeout_ms,
)
