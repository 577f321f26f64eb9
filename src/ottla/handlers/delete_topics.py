"""DeleteTopics (key 20): removed from the metadata at once, from the disks a little later.

v1 is the first that is served; v2 as v1; v3 TOPIC_DELETION_DISABLED, which older clients do not
know; v4 flexible; v5 error messages and THROTTLING_QUOTA_EXCEEDED (KIP-599); v6 topics by name or
by id (KIP-516).
"""

from functools import partial
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest, TopicDeletionDisabled
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import ByHandler, Each, Effect, Need, its_name_or_id, itself
from ottla.requests.turns import of_names

_DELETION_DISABLED: Final = 3
_STRICT: Final = 5
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED."""
_BY_ID: Final = 6
DENIED_MESSAGE: Final = "Topic authorization failed."
_ALL: Final = ((AclOperation.DELETE, ResourceType.CLUSTER),)
_DELETED: Final = ByHandler(
    AclOperation.DELETE, ResourceType.TOPIC, Effect.EACH, otherwise=_ALL, since=_BY_ID
)
_NAMED: Final = ByHandler(
    AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.EACH, otherwise=_ALL, since=_BY_ID
)
"""Of a topic that is named the client must know; not of one whose id it has, as in Kafka."""


async def handle(
    request: DeleteTopicsRequest, context: RequestContext, services: ControllerServices
) -> DeleteTopicsResponse:
    if not services.config.delete_topic_enable:
        if context.version < _DELETION_DISABLED:
            raise InvalidRequest("Topic deletion is disabled.")
        raise TopicDeletionDisabled("Topic deletion is disabled.")
    denied = await _take_denied(request, context, services)
    response = DeleteTopicsResponse()
    charge = services.quotas.charge(context, strict=context.version >= _STRICT)
    if not denied or request.topics:
        response = await within(
            services.scheduler,
            request.timeout_ms,
            lambda: services.controller.submit(request, charge=charge),
        )
        response.throttle_time_ms = charge.throttle_ms
    response.responses += denied
    return response


async def _take_denied(
    request: DeleteTopicsRequest, context: RequestContext, services: ControllerServices
) -> list[DeletableTopicResult]:
    """Take out what the client may not delete."""
    if not services.authorizer.enforces:
        return []
    judge = partial(_refusal, context=context, services=services)
    refusals = await of_names(context, services, judge, request.topics)
    judged = zip(request.topics, refusals, strict=True)
    request.topics = [topic for topic, refusal in judged if refusal is None]
    return [refusal for refusal in refusals if refusal is not None]


def _refusal(
    topic: DeleteTopicState, context: RequestContext, services: ControllerServices
) -> DeletableTopicResult | None:
    """None for what the client may delete. It hears the name of an id if it may know it."""
    authorizer = services.authorizer
    name = its_name_or_id(topic, services.metadata.image)
    if name is None or (
        _DELETED.allows(name, context, authorizer)
        and (topic.name is None or _NAMED.allows(name, context, authorizer))
    ):
        return None
    describe, of_topic = AclOperation.DESCRIBE, ResourceType.TOPIC
    is_known = topic.name is not None or authorizer.allows(
        context, describe, of_topic, name, log_if_denied=False
    )
    return DeletableTopicResult(
        name=name if is_known else None,
        topic_id=topic.topic_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=DENIED_MESSAGE,
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


def _by_name(operation: AclOperation) -> Need[DeleteTopicsRequest, DeleteTopicsResponse]:
    return Each(
        operation,
        ResourceType.TOPIC,
        lambda request: request.topic_names,
        itself,
        lambda response: response.responses,
        otherwise=_ALL,
        until=_BY_ID - 1,
    )


HANDLER: Final = Handler(
    DeleteTopicsRequest,
    handle,
    refuse=refuse,
    needs=[
        _by_name(AclOperation.DELETE),
        _by_name(AclOperation.DESCRIBE),
        _DELETED,
        _NAMED,
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN, since=_BY_ID),
    ],
    quota=Quota.CONTROLLER_MUTATION,
    timeout_ms=client_timeout_ms,
)
