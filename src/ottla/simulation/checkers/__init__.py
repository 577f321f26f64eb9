"""What must never be seen in a history of clients: pure functions, in linear time.

The simulator and tests with real processes share them. Counterpart in Apache Kafka: the
verifications of its system tests; the names of the anomalies are those of Jepsen's checker for
Kafka where it has one.

Invariant: each anomaly names an operation or an offset that proves it; a history of a correct
cluster has none, whatever the faults were.
"""
