"""State machines on internal topics: consumer groups and transactions; share groups later.

Called by ``handlers`` (requests) and ``server`` (leadership, deleted topics); calls what it got:
a writer and a reader of partitions, a scheduler. Counterpart in Apache Kafka: coordinator-common.
Invariant: an answer leaves only when every record that it rests on is committed.
"""
