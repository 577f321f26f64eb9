"""State machines on internal topics: consumer groups and transactions.

It is given what it needs: a writer and a reader of partitions, a scheduler. Counterpart in Apache
Kafka: coordinator-common.

Invariant: an answer leaves only when every record that it rests on is committed.
"""
