"""A small blocking client: for the command line, for Spark, for the demo and for tests.

Counterpart in Apache Kafka: ``clients`` (producer, consumer, admin).

Invariant: every wait has a deadline, every buffer a bound, and a caller that fails to reach a
broker is told what was tried.
"""
