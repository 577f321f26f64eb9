"""CreateTopics (key 19): made by the controller, each topic for itself.

One that is refused says why, and the others are made. The answer comes when the topics are written
to the metadata log, and this broker serves its partitions from then on.

v2 is the first that is served: validate_only came in v1, error messages too; v3 as v2; v4 -1 for
the default number of partitions and replicas (KIP-464); v5 flexible, the settings in the answer
(KIP-525); v6 THROTTLING_QUOTA_EXCEEDED (KIP-599); v7 the topic id (KIP-516).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.generated.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, client_timeout_ms
from ottla.requests.deadlines import within
from ottla.requests.needs import ByHandler, Each, Effect, its_name
from ottla.requests.turns import of_names

_STRICT: Final = 6
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED."""


async def handle(
    request: CreateTopicsRequest, context: RequestContext, services: ControllerServices
) -> CreateTopicsResponse:
    charge = services.quotas.charge(context, strict=context.version >= _STRICT)
    response = await within(
        services.scheduler,
        request.timeout_ms,
        lambda: services.controller.submit(request, charge=charge),
    )
    response.throttle_time_ms = charge.throttle_ms

    def hide(topic: CreatableTopicResult) -> None:
        topic.error_message = topic.error_message or None
        if topic.error_code == ErrorCode.NONE and not _may_describe(topic.name, context, services):
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.configs = []
            topic.num_partitions = topic.replication_factor = -1

    await of_names(context, services, hide, response.topics)
    return response


def _may_describe(name: str, context: RequestContext, services: ControllerServices) -> bool:
    return services.authorizer.allows(
        context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name
    )


def refuse(request: CreateTopicsRequest, error: ApiError, _version: int) -> CreateTopicsResponse:
    """Each topic that was named gets the error."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=name, error_code=error.code, error_message=error.message or None, configs=[]
            )
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    )


HANDLER: Final = Handler(
    CreateTopicsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.CREATE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
            otherwise=((AclOperation.CREATE, ResourceType.CLUSTER),),
        ),
        ByHandler(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, Effect.HIDDEN),
    ],
    quota=Quota.CONTROLLER_MUTATION,
    timeout_ms=client_timeout_ms,
)
