"""Who a client is, and what proves it: keys and certificates of TLS, names, logins.

Counterpart in Apache Kafka: ``org.apache.kafka.common.security`` and
``org.apache.kafka.common.network.Ssl*``.

Invariant: a secret never appears in a message, a log line or the text of an object.
"""
