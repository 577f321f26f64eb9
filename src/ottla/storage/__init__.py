"""The log on disk: segments, indexes, producer state, checkpoints, and the recovery of them.

Counterpart in Apache Kafka: ``storage/internals/log``.

Invariant: the recovery point never passes a byte that was not synced, and what stands before it is
never changed.
"""
