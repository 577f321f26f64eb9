"""Metrics and log lines, defined once: names as Kafka has them, figures, levels, forms.

Counterpart in Apache Kafka: its Yammer and Kafka metrics, the JMX exporter, log4j.

Invariant: counting costs one addition; whatever is dearer happens when somebody asks.
"""
