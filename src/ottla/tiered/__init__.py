"""Tiered storage: closed segments in a remote store, read from there when they are gone here.

``server`` gives it logs, a store and the metadata topic. Counterpart in Apache Kafka:
``org.apache.kafka.server.log.remote.*``.

Invariant: a local segment goes only when a finished copy of all its offsets is known to the topic.
"""
