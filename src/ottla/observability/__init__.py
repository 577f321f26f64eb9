"""Metrics and log lines, defined once.

Called by drivers and shells, never by cores; calls only ``common`` and ``config``. Counterpart in
Apache Kafka: its Yammer and Kafka metrics, the JMX exporter, log4j. Invariant: counting costs one
addition; whatever is dearer happens when somebody asks.
"""
