"""What the cluster is: immutable images, the records that make them, and pure decisions on them.

Counterpart in Apache Kafka: ``metadata/image`` and ``metadata/metadata``.

Invariant: an image changes only by replaying records of the metadata log, in order.
"""
