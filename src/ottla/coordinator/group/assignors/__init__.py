"""Which member is to read which partition: the assignors of consumer groups, as pure functions.

Counterpart in Apache Kafka: RangeAssignor, UniformAssignor. Racks are known to them and, as in
Kafka 4.3, play no part.

Invariant: each partition of a topic to which anybody is subscribed has exactly one owner, and that
one is subscribed to it.
"""
