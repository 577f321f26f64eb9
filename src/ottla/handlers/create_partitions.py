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

_STRICT: Final = 3
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED."""


async def handle(
    request: CreatePartitionsRequest, context: RequestContext, services: ControllerServices
) -> CreatePartitionsResponse:
    charge = services.quotas.charge(context, strict=context.version >= _STRICT)
    response = await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request, charge=charge),
    )
    response.throttle_time_ms = charge.throttle_ms
    return response


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
