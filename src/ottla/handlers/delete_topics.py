"""DeleteTopics (key 20): removed from the metadata at once, from the disks a little later.

v1 is the first that is served; v2 as v1; v3 TOPIC_DELETION_DISABLED, which older clients do not
know; v4 flexible; v5 error messages and THROTTLING_QUOTA_EXCEEDED (KIP-599); v6 topics by name or
by id (KIP-516).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, InvalidRequest, TopicDeletionDisabled
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import ByHandler, Each, Effect, its_name_or_id, itself

_DELETION_DISABLED: Final = 3
_BY_ID: Final = 6


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


def refuse(request: DeleteTopicsRequest, error: ApiError, _version: int) -> DeleteTopicsResponse:
    """Each topic that was named gets the error."""
    named = [DeleteTopicState(name=name) for name in request.topic_names] + request.topics
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.message or None,
            )
            for topic in named
        ]
    )


HANDLER: Final = Handler(
    DeleteTopicsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DELETE,
            ResourceType.TOPIC,
            lambda request: request.topic_names,
            itself,
            lambda response: response.responses,
            otherwise=((AclOperation.DELETE, ResourceType.CLUSTER),),
            until=_BY_ID - 1,
        ),
        Each(
            AclOperation.DELETE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name_or_id,
            lambda response: response.responses,
            otherwise=((AclOperation.DELETE, ResourceType.CLUSTER),),
            since=_BY_ID,
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN, since=_BY_ID),
    ],
    quota=Quota.CONTROLLER_MUTATION,
    timeout_ms=client_timeout_ms,
)
