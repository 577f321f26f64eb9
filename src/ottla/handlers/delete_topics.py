"""DeleteTopics (key 20): removed from the metadata at once, from the disks a little later.

v1 is the first that is served; v2 as v1; v3 TOPIC_DELETION_DISABLED, which older clients do not
know; v4 flexible; v5 error messages and THROTTLING_QUOTA_EXCEEDED (KIP-599); v6 topics by name or
by id (KIP-516).
"""

from typing import Final

from ottla.common.errors import ErrorCode, InvalidRequest, TopicDeletionDisabled
from ottla.handlers.context import ControllerServices, RequestContext
from ottla.handlers.deadlines import within
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

KEY: Final = ApiKey.DELETE_TOPICS
VERSIONS: Final = (1, 6)
_DELETION_DISABLED: Final = 3


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, services: ControllerServices
) -> DeleteTopicsResponse:
    if not services.config.delete_topic_enable:
        if context.version < _DELETION_DISABLED:
            raise InvalidRequest("Topic deletion is disabled.")
        raise TopicDeletionDisabled("Topic deletion is disabled.")
    return await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request),
    )


def refuse(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    """Each topic that was named gets the error."""
    named = [DeleteTopicState(name=name) for name in request.topic_names] + request.topics
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=code,
                error_message=message or None,
            )
            for topic in named
        ]
    )
