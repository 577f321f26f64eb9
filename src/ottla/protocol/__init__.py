"""The wire: every message of Apache Kafka 4.3.1, from one schema, in all its versions.

Counterpart in Apache Kafka: ``clients/common/{message,protocol,requests}`` and its message
generator.

Invariant: no length that a peer sends is believed before it is checked against the bytes that
remain.
"""
