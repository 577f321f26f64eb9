"""What a client may do with a resource, as bits: which operations make sense for it.

Without an authorizer everybody may do everything, and the answer is all of them, as in Kafka.
"""

from typing import Final

from ottla.common.authorization import Operation


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(1 << 31)
"""What stands in the answer when nobody asked."""
ON_TOPIC: Final = bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
ON_CLUSTER: Final = bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
