"""A client, as the coordinators of groups know it."""

from ottla.common.authorization import AclOperation, ResourceType
from ottla.coordinator.group.group import Caller
from ottla.requests.context import RequestContext, Services


def caller_of(context: RequestContext, services: Services) -> Caller:
    caller = Caller(context.version, context.client_id or "", context.client_host)
    authorizer = services.authorizer
    if not authorizer.enforces:
        return caller

    def may_describe(topic: str) -> bool:
        describe, of_topic = AclOperation.DESCRIBE, ResourceType.TOPIC
        return authorizer.allows(context, describe, of_topic, topic, log_if_denied=False)

    return caller._replace(may_describe=may_describe)
