"""DescribeQuorum (key 55): the voters and observers of the metadata log, and how far each is.

v1 when each was last heard of and last caught up (KIP-836); v2 directory ids, error messages and
the voters' addresses (KIP-853).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.identifiers import ZERO_UUID
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole

_DIRECTORY_IDS: Final = 2


async def handle(
    request: DescribeQuorumRequest, context: RequestContext, services: ControllerServices
) -> DescribeQuorumResponse:
    response = await services.controller.submit(request)
    if context.version < _DIRECTORY_IDS:
        response.nodes = []
        for topic in response.topics:
            for partition in topic.partitions:
                for replica in partition.current_voters + partition.observers:
                    replica.replica_directory_id = ZERO_UUID
    return response


HANDLER: Final = Handler(
    DescribeQuorumRequest,
    handle,
    refuse=by_code(DescribeQuorumResponse),
    needs=[Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
)
