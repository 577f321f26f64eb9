"""The settings of a broker, a class for each theme; ``config.broker.BrokerConfig`` is all of them.

Counterpart in Apache Kafka: the ``*Configs`` classes of its server modules.

Invariant: each key stands here exactly once, as Apache Kafka 4.3.1 defines it.
"""
