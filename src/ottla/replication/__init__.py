"""The partitions of this broker: what is appended, what may be read, what waits for it; and what is
fetched of those that other brokers lead.

Counterpart in Apache Kafka: ``ReplicaManager``, ``Partition``, ``FetchManager``, the purgatories.

Invariant: a client never sees a record at or above the high watermark, nor at or above the last
stable offset under read_committed.
"""
