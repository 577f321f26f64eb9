"""What clients do in a simulation: each workload draws its acts from the seed and writes a history.

Counterpart in Apache Kafka: the verifiable producer, consumer and copier of its system tests.

Invariant: a workload claims no more than its client was told, and ends by itself when it is told
that the faults are over.
"""
