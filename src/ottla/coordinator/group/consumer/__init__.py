"""Consumer groups (KIP-848): the coordinator assigns, and each member goes at its own pace.

Counterpart in Apache Kafka: ConsumerGroup, CurrentAssignmentBuilder, TargetAssignmentBuilder, and
the consumer half of GroupMetadataManager.

Invariant: a partition is given to a member only when nobody else owns it.
"""
