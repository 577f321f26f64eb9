"""What a client may do with a resource, as bits: which operations make sense for it.

Without an authorizer everybody may do everything, and the answer is all of them, as in Kafka.
"""

from typing import Final

from ottla.common.authorization import AclOperation


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(1 << 31)
"""What stands in the answer when nobody asked."""
ON_TOPIC: Final = bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
ON_CLUSTER: Final = bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
