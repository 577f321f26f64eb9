"""ListPartitionReassignments (key 46): which partitions are on the move, and where to (KIP-455).

v0 flexible from the start. Without a list of topics all are meant. The controller does not look at
the request's timeout, however short.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


async def handle(
    request: ListPartitionReassignmentsRequest,
    _context: RequestContext,
    services: ControllerServices,
) -> ListPartitionReassignmentsResponse:
    if request.topics == []:
        return ListPartitionReassignmentsResponse(error_message=None)
    return await services.controller.submit(request)


def refuse(
    request: ListPartitionReassignmentsRequest, error: ApiError, _version: int
) -> ListPartitionReassignmentsResponse:
    """The error is of the whole; the partitions that were named are named again."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message or None,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


HANDLER: Final = Handler(
    ListPartitionReassignmentsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
)
