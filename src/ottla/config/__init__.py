"""Every config key once: its name, type, default, range, scope and meaning; and which value wins.

Counterpart in Apache Kafka: ConfigDef, KafkaConfig, LogConfig, GroupConfig, DynamicBrokerConfig,
ConfigHelper.

Invariant: a set of settings never changes; a change makes a new one.
"""
