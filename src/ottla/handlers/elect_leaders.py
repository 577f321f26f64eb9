"""ElectLeaders (key 43): lead by the preferred replica, or at last by any (KIP-183).

v1 says which kind of election is meant (KIP-460), before it was always the preferred one; v2
flexible. Without a list of partitions all are meant.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import Whole


async def handle(
    request: ElectLeadersRequest, _context: RequestContext, services: ControllerServices
) -> ElectLeadersResponse:
    if request.topic_partitions == []:
        return ElectLeadersResponse()  # nothing to decide: any controller says so
    return await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request),
    )


def refuse(request: ElectLeadersRequest, error: ApiError, version: int) -> ElectLeadersResponse:
    """Each partition that was named gets the error, and from v1 on so does the whole."""
    return ElectLeadersResponse(
        error_code=error.code if version > 0 else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index,
                        error_code=error.code,
                        error_message=error.message or None,
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


HANDLER: Final = Handler(
    ElectLeadersRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    timeout_ms=client_timeout_ms,
)
