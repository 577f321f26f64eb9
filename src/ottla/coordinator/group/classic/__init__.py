"""Classic groups: the leader among the members assigns, the coordinator keeps them in step.

Counterpart in Apache Kafka: ClassicGroup, and the classic half of GroupMetadataManager.

Invariant: a member has one assignment in a generation, and it was stored before it was told.
"""
