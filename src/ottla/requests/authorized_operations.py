"""What a client may do with a resource, as bits, one for each operation that makes sense for it."""

from typing import Final

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.requests.context import NodeServices, RequestContext

NOT_ASKED: Final = -(1 << 31)
"""What stands in the answer when nobody asked."""
_ON: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
OPERATIONS_MAX: Final = max(map(len, _ON.values()))
"""So often the authorizer is asked for one resource, at the most."""
_ALL: Final = {kind: sum(1 << each for each in operations) for kind, operations in _ON.items()}


def authorized_operations(
    resource_type: ResourceType, name: str, context: RequestContext, services: NodeServices
) -> int:
    """All of them where there is no authorizer, as in Kafka."""
    authorizer = services.authorizer
    if not authorizer.enforces:
        return _ALL[resource_type]
    return sum(
        1 << operation
        for operation in _ON[resource_type]
        if authorizer.allows(context, operation, resource_type, name, log_if_denied=False)
    )


def on_cluster(context: RequestContext, services: NodeServices) -> int:
    """Nothing for a client that may not describe the cluster."""
    cluster = ResourceType.CLUSTER
    if not services.authorizer.allows(context, AclOperation.DESCRIBE, cluster, CLUSTER_NAME):
        return 0
    return authorized_operations(cluster, CLUSTER_NAME, context, services)
