"""What the cluster is: immutable images, the records that make them, and pure decisions on them.

Called by raft, controller, replication, handlers and server; calls protocol, records, config.
Counterpart in Apache Kafka: ``metadata/image`` and ``metadata/metadata``.
Invariant: an image changes only by replaying records of the metadata log, in order.
"""
